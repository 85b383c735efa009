// The config.json of each decoder family: transformers' names and defaults. Every key that changes
// the logits is honoured or refused.
#pragma once

#include "engine/families/config_reader.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// These functions fill a config from `reader`, which notes wrong and unsupported values.
void ReadGpt2(ConfigReader& reader, TransformerConfig& config);
// llama, mistral, qwen2, qwen3 and gemma, by config.model_type.
void ReadLlama(ConfigReader& reader, TransformerConfig& config);
void ReadGptNeox(ConfigReader& reader, TransformerConfig& config);
void ReadOpt(ConfigReader& reader, TransformerConfig& config);

}  // namespace spillway
