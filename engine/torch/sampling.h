// How the next token of a text is drawn from its logits.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace spillway {

struct SamplingOptions {
  double temperature = 0.8;  // 0: the likeliest
  int64_t top_k = 50;        // only the k likeliest; 0: all
  double top_p = 1;          // of those the fewest that have this much of the chances together
  uint64_t seed = 42;
};

// Draws token number `index` of a text from its logits [classes], fp32. The same options,
// index and logits give the same token, whatever was drawn before. At temperature 0 the first
// of the largest. As transformers: temperature, then top-k, then top-p.
int64_t SampleToken(const torch::Tensor& logits, const SamplingOptions& options, uint64_t index);

}  // namespace spillway
