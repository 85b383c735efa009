// --config files that say settings by train's own names: a YAML recipe, and the
// config.resolved.json of an earlier run.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/config/train_flags.h"
#include "engine/config/yaml_entries.h"
#include "nlohmann/json.hpp"

namespace spillway {

// Reads --config once. A recipe's settings are put into `flags` where the command line does not
// give them, with their places; `config` is then the DeepSpeed file that the recipe names, if any.
// Any other file's text is kept for ResolveRunConfig. A second call changes nothing. Relative paths
// in a recipe are relative to the current directory, as flags are. Returns kInvalidArgument or
// kNotFound, which names FILE:LINE, with everything that is wrong with the recipe.
absl::Status TakeConfigFile(TrainFlags* flags);

// All flags that are given, by their names: {"--lr": "1e-4", "--data": ["a.txt"], "--resume":
// true}. A recipe of config.resolved.json reads them again.
nlohmann::json GivenFlags(const TrainFlags& flags);

// The rest of an error: the entries (accelerate's) as flags of train, those that have no effect,
// and those that are in the way.
std::string YamlAsFlags(const std::vector<YamlEntry>& entries);

}  // namespace spillway
