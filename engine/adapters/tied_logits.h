// Adapters that PEFT has trained beside tied logits.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/families/model_config.h"

namespace spillway {

// Of a module to save PEFT trains a copy. If that is the embedding or the logits of a model that
// ties them, the two are apart from then on, unless the adapter's file has both with the same
// values, as it has where ensure_weight_tying took effect. Such an adapter's model is the one in
// `config` with untied logits (WithUntiedLogits), which `config` becomes here; for any other
// adapter it stays. `model_directory` has the weights that the adapter was made for; the two
// matrices are read if the file has the logits. kInvalidArgument for a family whose logits cannot
// be untied, and for a directory without a readable adapter.
absl::Status UntieForAdapter(const std::string& adapter_directory,
                             const std::string& model_directory, ModelConfig* config);

}  // namespace spillway
