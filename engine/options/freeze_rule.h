// Which parameters a run leaves as they are, by name. Plain values.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "engine/numeric/packed_matrix.h"

namespace spillway {

// Regular expressions (engine/base/name_pattern.h) that are looked for
// anywhere in a name. A parameter is frozen that `freeze` is found in, and one that `train_only` is
// given for and not found in; "": not given.
struct FreezeRule {
  std::string freeze;      // --freeze
  std::string train_only;  // --train-only
  // In which form the frozen matrices are kept that units multiply by (--base-dtype).
  Packing packing = {};
  // Those of them that are; none: all.
  std::optional<std::set<std::string>> packed = {};

  bool empty() const { return freeze.empty() && train_only.empty() && !packing.any(); }
};

}  // namespace spillway
