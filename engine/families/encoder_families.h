// The config.json of each encoder family: transformers' names and defaults. Every key that changes
// the scores is honoured or refused.
#pragma once

#include "engine/families/config_reader.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// Fills a config from `reader`, which notes wrong and unsupported values: bert, roberta and
// roberta's aliases, by config.model_type.
void ReadBert(ConfigReader& reader, TransformerConfig& config);
void ReadDistilBert(ConfigReader& reader, TransformerConfig& config);

}  // namespace spillway
