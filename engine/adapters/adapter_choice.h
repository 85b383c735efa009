// What a run is told of adapters. Plain values.
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
  std::optional<LoraConfig> lora = {};  // --lora-r and its like; without targets: the family's
  std::string config_file = {};         // --peft-config
  std::string directory = {};           // --adapter: goes on with that one
  // Modules with parameters that the model's files have not got, and that are drawn anew.
  std::vector<std::string> new_modules = {};

  bool none() const { return !lora && config_file.empty() && directory.empty(); }
};

// What the adapters of such a model are like. Tied logits among the modules to save are the
// embedding, which must be there, too. As PEFT has it, what scores labels is trained whole
// whatever modules to save are named (of pictures, for which PEFT has no task, where none are), and
// so is what is new; an adapter that is gone on with says itself what it has. kInvalidArgument
// for a file that says nothing of use or is for another task, or a family for which targets must be
// named. REQUIRES: `choice` is not none.
absl::StatusOr<LoraConfig> ResolveLora(const AdapterChoice& choice, const ModelShape& shape);

// The model, which has nothing frozen and no adapters, as a run with them would train it.
absl::StatusOr<ModelDescription> DescribeTrained(const ModelShape& shape,
                                                 const AdapterChoice& choice,
                                                 const FreezeRule& freeze);

}  // namespace spillway
