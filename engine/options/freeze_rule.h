// Selection of frozen parameters by name. Plain values.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "engine/numeric/packed_matrix.h"

namespace spillway {

// Regular expressions (engine/base/name_pattern.h), searched anywhere in a parameter's name. A
// parameter is frozen if `freeze` matches it, or if `train_only` is given and does not match it.
// "": not given.
struct FreezeRule {
  std::string freeze;      // --freeze
  std::string train_only;  // --train-only
  // Packed format of the frozen matrices that units multiply by (--base-dtype).
  Packing packing = {};
  // Names of the packed matrices; none: all of them.
  std::optional<std::set<std::string>> packed = {};

  bool empty() const { return freeze.empty() && train_only.empty() && !packing.any(); }
};

}  // namespace spillway
