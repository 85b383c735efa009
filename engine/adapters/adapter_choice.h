// What a run is told of adapters. Plain values.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/adapters/lora_config.h"
#include "engine/model/model_description.h"
#include "engine/options/freeze_rule.h"

namespace spillway {

struct AdapterChoice {
  std::optional<LoraConfig> lora;  // --lora-r and its like; without targets: the family's
  std::string config_file;         // --peft-config
  std::string directory;           // --adapter: goes on with that one

  bool none() const { return !lora && config_file.empty() && directory.empty(); }
};

// What the adapters of a model of that type are like. kInvalidArgument for a file that says nothing
// of use, or a family for which targets must be named. REQUIRES: `choice` is not none.
absl::StatusOr<LoraConfig> ResolveLora(const AdapterChoice& choice, absl::string_view model_type);

// `model`, which has nothing frozen and no adapters, as a run with them would train it.
absl::StatusOr<ModelDescription> DescribeTrained(const ModelDescription& model,
                                                 absl::string_view model_type,
                                                 const AdapterChoice& choice,
                                                 const FreezeRule& freeze);

}  // namespace spillway
