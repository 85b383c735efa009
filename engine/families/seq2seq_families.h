// The config.json of each encoder-decoder family: transformers' names and defaults. Every key that
// changes the logits is honoured or refused.
#pragma once

#include "engine/families/config_reader.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// Fills a config and its encoder's from `reader`, which notes wrong and unsupported values.
void ReadT5(ConfigReader& reader, TransformerConfig& config);
// bart, blenderbot and blenderbot-small, by config.model_type.
void ReadBart(ConfigReader& reader, TransformerConfig& config);
void ReadWhisper(ConfigReader& reader, TransformerConfig& config);

}  // namespace spillway
