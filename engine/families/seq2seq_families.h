// What the config.json of each family of encoders and decoders means: transformers' defaults and
// names, every key that changes the logits honoured or refused.
#pragma once

#include "engine/families/config_reader.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// Fills a config, and its encoder's, from what `reader` finds, which notes what is wrong or
// unsupported.
void ReadT5(ConfigReader& reader, TransformerConfig& config);
// bart, blenderbot and blenderbot-small, by config.model_type.
void ReadBart(ConfigReader& reader, TransformerConfig& config);
void ReadWhisper(ConfigReader& reader, TransformerConfig& config);

}  // namespace spillway
