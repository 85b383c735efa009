// The keys of a config.json that say how positions turn queries and keys.
#pragma once

#include "engine/families/config_reader.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// Fills config.rotary, from `rope_parameters` (transformers 5) or `rope_scaling` and the keys
// beside it (before). `base_keys`, `partial_keys`: what the family calls rope_theta and
// partial_rotary_factor outside of them; without partial keys all of a head is turned.
// REQUIRES: head_size and positions are set.
void ReadRotary(ConfigReader& reader, const ConfigReader::Keys& base_keys,
                const ConfigReader::Keys& partial_keys, double partial, TransformerConfig& config);

}  // namespace spillway
