// How the next token of a text is drawn from its logits.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "engine/options/sampling_options.h"

namespace spillway {

// Draws token number `index` of a text from its logits [classes], fp32. The same options,
// index and logits give the same token, whatever was drawn before. At temperature 0 the first
// of the largest. As transformers: temperature, then top-k, then top-p.
int64_t SampleToken(const torch::Tensor& logits, const SamplingOptions& options, uint64_t index);

}  // namespace spillway
