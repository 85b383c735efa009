// What the config.json of each decoder family means: transformers' defaults and names, every key
// that changes the logits honoured or refused.
#pragma once

#include "engine/families/config_reader.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// Each fills a config from what `reader` finds, which notes what is wrong or unsupported.
void ReadGpt2(ConfigReader& reader, TransformerConfig& config);
// llama, mistral, qwen2, qwen3 and gemma, by config.model_type.
void ReadLlama(ConfigReader& reader, TransformerConfig& config);
void ReadGptNeox(ConfigReader& reader, TransformerConfig& config);
void ReadOpt(ConfigReader& reader, TransformerConfig& config);

}  // namespace spillway
