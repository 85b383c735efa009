// Parameters that are read and never updated.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "engine/model/model_description.h"
#include "engine/options/freeze_rule.h"

namespace spillway {

// Freezes the parameters that `frozen` picks by name, and lays out all of them. kInvalidArgument
// where none is left to be trained. REQUIRES: nothing is frozen yet.
absl::Status FreezeParameters(const std::function<bool(const std::string&)>& frozen,
                              ModelDescription& model);

// Those that the rule picks, and `also` of others. kInvalidArgument for what is no regular
// expression, or is found in no name.
absl::Status FreezeParameters(const FreezeRule& rule,
                              const std::function<bool(const std::string&)>& also,
                              ModelDescription& model);

}  // namespace spillway
