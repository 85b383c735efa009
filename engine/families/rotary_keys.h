// The keys of a config.json for rotary position embeddings.
#pragma once

#include "engine/families/config_reader.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// Fills config.rotary from `rope_parameters` (transformers 5), or from `rope_scaling` and the keys
// beside it (before). `base_keys`, `partial_keys`: the family's names of rope_theta and
// partial_rotary_factor outside of these. Without partial keys all elements of a head are rotated.
// REQUIRES: head_size and positions are set.
void ReadRotary(ConfigReader& reader, const ConfigReader::Keys& base_keys,
                const ConfigReader::Keys& partial_keys, double partial, TransformerConfig& config);

}  // namespace spillway
