// What a run is told of adapters. Plain values.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/adapters/lora_config.h"
#include "engine/model/model_shape.h"
#include "engine/options/freeze_rule.h"

namespace spillway {

struct AdapterChoice {
  std::optional<LoraConfig> lora;  // --lora-r and its like; without targets: the family's
  std::string config_file;         // --peft-config
  std::string directory;           // --adapter: goes on with that one

  bool none() const { return !lora && config_file.empty() && directory.empty(); }
};

// What the adapters of such a model are like; what scores labels is trained whole unless the choice
// names modules to save, as PEFT has it. kInvalidArgument for a file that says nothing of use or is
// for another task, or a family for which targets must be named. REQUIRES: `choice` is not none.
absl::StatusOr<LoraConfig> ResolveLora(const AdapterChoice& choice, const ModelShape& shape);

// The model, which has nothing frozen and no adapters, as a run with them would train it.
absl::StatusOr<ModelDescription> DescribeTrained(const ModelShape& shape,
                                                 const AdapterChoice& choice,
                                                 const FreezeRule& freeze);

}  // namespace spillway
