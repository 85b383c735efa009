// Chooses the next token of a text from the model's logits.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "absl/types/span.h"
#include "engine/options/sampling_options.h"

namespace spillway {

// `logits` [classes], fp32 -> scores of the allowed next tokens, computed like transformers'
// processors: repetition penalty, n-grams, minimum length, forced tokens; above temperature 0 then
// temperature, top-k, top-p. Forbidden tokens have minus infinity. `text`: all tokens so far, of
// which the first `prompt_tokens` are the prompt; `source`: the tokens of an encoder.
torch::Tensor ScoresOf(const torch::Tensor& logits, absl::Span<const int64_t> text,
                       int64_t prompt_tokens, const SamplingOptions& options,
                       absl::Span<const int64_t> source = {});

// At temperature 0 the likeliest of `scores` [classes], the first of several; above, a random one
// by their probabilities. Depends on the seed, the number of the text and `index`, that of its new
// token, and on nothing else.
int64_t SampleToken(const torch::Tensor& scores, const SamplingOptions& options, uint64_t index,
                    uint64_t text_number = 0);

}  // namespace spillway
