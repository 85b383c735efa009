// Batches of encoded texts of different lengths for an encoder, and the padding of rows.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "engine/tokenizers/token_template.h"
#include "engine/torch/model.h"

namespace spillway {

// Fields of such a batch, by transformers' names: the positions that are not padding [samples, T]
// bool; the kind of each position, 0 or 1 for the first or the second text of a pair [samples, T]
// int64.
inline constexpr const char* kVisibleField = "attention_mask";
inline constexpr const char* kTokenTypesField = "token_type_ids";
// Inputs of encoder and decoder, if a model has both: [samples, T], [samples, U] int64.
inline constexpr const char* kSourceField = "input_ids";
inline constexpr const char* kTargetField = "decoder_input_ids";

// Positions of a batch whose longest row has `positions`: a multiple of 8, but at most `most`.
int64_t PaddedLength(int64_t positions, int64_t most);

// Inputs [texts, length] int64 and the fields; texts are padded with `padding` tokens of kind 0. No
// labels. REQUIRES: no text is empty, or longer.
Batch BatchOfTexts(const std::vector<EncodedText>& texts, int64_t length, int64_t padding);

// A batch of `count` texts of that length whose tokens all differ, below `vocabulary`, so that each
// has a gradient of its own: no such batch needs more memory.
Batch LargestBatchOfTexts(int64_t count, int64_t length, int64_t vocabulary);

// Labels of tokens [texts, length] int64, padded with kIgnoredLabel.
torch::Tensor LabelsOfTokens(const std::vector<std::vector<int64_t>>& labels, int64_t length);

}  // namespace spillway
