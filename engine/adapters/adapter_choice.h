// The settings of a run about adapters. Plain values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/adapters/lora_config.h"
#include "engine/model/model_shape.h"
#include "engine/options/freeze_rule.h"

namespace spillway {

struct AdapterChoice {
  std::optional<LoraConfig> lora = {};  // --lora-r and other flags; without targets: the family's
  std::string config_file = {};         // --peft-config
  std::string directory = {};           // --adapter: the adapter to continue
  // Modules with parameters that the model's files lack, and that are drawn randomly.
  std::vector<std::string> new_modules = {};

  bool none() const { return !lora && config_file.empty() && directory.empty(); }
};

// Resolves the adapters' config for a model. If modules to save name tied logits, they mean the
// embedding. As in PEFT, a classification head is always trained whole (for pictures, where PEFT
// has no task, only if no modules to save are given), and so are new modules; an adapter that is
// continued lists its own. kInvalidArgument for a file without usable settings or for another task,
// and for a family without default targets if none are given. REQUIRES: `choice` is not none.
absl::StatusOr<LoraConfig> ResolveLora(const AdapterChoice& choice, const ModelShape& shape);

// Describes the model as a run with adapters trains it. `shape` has nothing frozen and no adapters.
absl::StatusOr<ModelDescription> DescribeTrained(const ModelShape& shape,
                                                 const AdapterChoice& choice,
                                                 const FreezeRule& freeze);

}  // namespace spillway
