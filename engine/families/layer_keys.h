// Keys of a config.json that decoder and encoder families share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/families/config_reader.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// A bound far above any model and far below an overflow of byte counts.
inline constexpr int64_t kMaxVocabulary = int64_t{1} << 24;
inline constexpr int64_t kMaxPositions = int64_t{1} << 28;
inline constexpr int64_t kMaxWidth = int64_t{1} << 17;
inline constexpr int64_t kMaxInner = int64_t{1} << 20;
inline constexpr int64_t kMaxLayers = 10000;

void ReadActivation(ConfigReader& reader, const ConfigReader::Keys& keys, Activation* activation);

// Refuses configs of models that no family supports; `has_encoder` tells which of encoder-decoder
// and single-stack keys are refused.
void RefuseOtherModels(ConfigReader& reader, bool has_encoder = false);

// Reads head_size and sets score_scale. `fallback` is the head size if the config has none; 0:
// hidden size / heads. REQUIRES: hidden and heads are read.
void ReadHeadSize(ConfigReader& reader, int64_t fallback, TransformerConfig& config);

void ReadPaddingToken(ConfigReader& reader, std::optional<int64_t> fallback,
                      TransformerConfig& config);

// The first name of `architectures`; "": there is none.
std::string ArchitectureOf(ConfigReader& reader);

// Where the architecture is a decoder's *ForSequenceClassification: labels of the last token in the
// place of logits. `padding_token`: where the config says nothing.
void ReadLastTokenClassifier(ConfigReader& reader, std::optional<int64_t> padding_token,
                             TransformerConfig& config);

}  // namespace spillway
