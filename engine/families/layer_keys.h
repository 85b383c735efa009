// Keys of a config.json that families of decoders and of encoders have in common.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/families/config_reader.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// Far above any model, far below what could overflow a byte count.
inline constexpr int64_t kMaxVocabulary = int64_t{1} << 24;
inline constexpr int64_t kMaxPositions = int64_t{1} << 28;
inline constexpr int64_t kMaxWidth = int64_t{1} << 17;
inline constexpr int64_t kMaxInner = int64_t{1} << 20;
inline constexpr int64_t kMaxLayers = 10000;

void ReadActivation(ConfigReader& reader, const ConfigReader::Keys& keys, Activation* activation);

// Refuses what no family here has, and of those with two stacks or with one what the others have.
void RefuseOtherModels(ConfigReader& reader, bool has_encoder = false);

// Sets score_scale, too; `fallback`: where the config says nothing, 0: the hidden size over the
// heads. REQUIRES: hidden and heads are read.
void ReadHeadSize(ConfigReader& reader, int64_t fallback, TransformerConfig& config);

void ReadPaddingToken(ConfigReader& reader, std::optional<int64_t> fallback,
                      TransformerConfig& config);

}  // namespace spillway
