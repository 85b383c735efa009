// Handles adapters that PEFT trained for models with tied logits.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/families/model_config.h"

namespace spillway {

// PEFT trains a copy of a module to save. If that is the embedding or the logits of a model that
// ties them, the two differ from then on, unless the adapter's file has both with equal values
// because ensure_weight_tying took effect. For such an adapter `config` gets untied logits
// (WithUntiedLogits); for any other one it is unchanged. `model_directory` has the weights that the
// adapter was made for; the two matrices are read if the file has the logits. kInvalidArgument for
// a family whose logits cannot be untied, and for a directory without a readable adapter.
absl::Status UntieForAdapter(const std::string& adapter_directory,
                             const std::string& model_directory, ModelConfig* config);

}  // namespace spillway
