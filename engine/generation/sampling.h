// The next token of a text, from the logits that a model gives.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "absl/types/span.h"
#include "engine/options/sampling_options.h"

namespace spillway {

// `logits` [classes], fp32 -> the same of what may come next, as transformers' processors make
// them: repetition penalty, n-grams, ends that come too early, what is forced; above temperature 0
// then temperature, top-k, top-p. What may not come is minus infinity. `text`: all tokens so far,
// of which the first `prompt_tokens` were given; `source`: what the encoder of a model with one
// reads.
torch::Tensor ScoresOf(const torch::Tensor& logits, absl::Span<const int64_t> text,
                       int64_t prompt_tokens, const SamplingOptions& options,
                       absl::Span<const int64_t> source = {});

// At temperature 0 the likeliest of `scores` [classes], the first of several; above, one drawn by
// its chances. Depends on the seed, the number of the text and `index`, that of its new token, and
// on nothing else.
int64_t SampleToken(const torch::Tensor& scores, const SamplingOptions& options, uint64_t index,
                    uint64_t text_number = 0);

}  // namespace spillway
