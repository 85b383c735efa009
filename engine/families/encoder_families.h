// What the config.json of each family of encoders means, for the classification of texts:
// transformers' defaults and names, every key that changes the scores honoured or refused.
#pragma once

#include "engine/families/config_reader.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// Each fills a config from what `reader` finds, which notes what is wrong or unsupported.
// bert, roberta, and what is roberta by another name, by config.model_type.
void ReadBert(ConfigReader& reader, TransformerConfig& config);
void ReadDistilBert(ConfigReader& reader, TransformerConfig& config);

}  // namespace spillway
