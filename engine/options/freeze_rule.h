// The rule that freezes parameters by name. Plain values.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "engine/numeric/packed_matrix.h"

namespace spillway {

// Regular expressions (engine/base/name_pattern.h) that match anywhere in a name. A parameter is
// frozen if `freeze` matches, or `train_only` is set and does not match; "": not set.
struct FreezeRule {
  std::string freeze;      // --freeze
  std::string train_only;  // --train-only
  // The format of frozen matrices that layers multiply by (--base-dtype).
  Packing packing = {};
  // The names of matrices that are packed; none: all of these.
  std::optional<std::set<std::string>> packed = {};

  bool empty() const { return freeze.empty() && train_only.empty() && !packing.any(); }
};

}  // namespace spillway
