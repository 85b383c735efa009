// Encoded texts of different lengths as a batch for an encoder, and how rows are padded.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "engine/tokenizers/token_template.h"
#include "engine/torch/model.h"

namespace spillway {

// Fields of such a batch, by transformers' names: which positions are a text's [samples, T] bool;
// which kind of text, as the first or the second of a pair, a position is of [samples, T] int64.
inline constexpr const char* kVisibleField = "attention_mask";
inline constexpr const char* kTokenTypesField = "token_type_ids";
// What an encoder and a decoder read, where a model has both: [samples, T], [samples, U] int64.
inline constexpr const char* kSourceField = "input_ids";
inline constexpr const char* kTargetField = "decoder_input_ids";

// Positions of a batch whose longest row has so many: a multiple of 8, but at most `most`.
int64_t PaddedLength(int64_t positions, int64_t most);

// Inputs [texts, length] int64 and the fields; behind a text there are `padding` tokens of kind 0.
// No labels. REQUIRES: no text is empty, or longer.
Batch BatchOfTexts(const std::vector<EncodedText>& texts, int64_t length, int64_t padding);

// Such a batch of so many texts of that length, of different tokens below `vocabulary`, so that
// each has a gradient of its own: none takes more memory.
Batch LargestBatchOfTexts(int64_t count, int64_t length, int64_t vocabulary);

// Labels [texts, length] int64 of tokens, kIgnoredLabel behind a text's.
torch::Tensor LabelsOfTokens(const std::vector<std::vector<int64_t>>& labels, int64_t length);

}  // namespace spillway
