// Freezes parameters: they are read and never updated.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "engine/model/model_description.h"
#include "engine/options/freeze_rule.h"

namespace spillway {

// Freezes the parameters whose names `frozen` accepts, and lays out all parameters.
// kInvalidArgument if none is left to train. REQUIRES: no parameter is frozen yet.
absl::Status FreezeParameters(const std::function<bool(const std::string&)>& frozen,
                              ModelDescription& model);

// Freezes the parameters that the rule selects, and those that `also` accepts. kInvalidArgument for
// an invalid regular expression, or one that matches no name.
absl::Status FreezeParameters(const FreezeRule& rule,
                              const std::function<bool(const std::string&)>& also,
                              ModelDescription& model);

}  // namespace spillway
