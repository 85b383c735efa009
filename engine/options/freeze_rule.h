// Which parameters a run leaves as they are, by name. Plain values.
#pragma once

#include <string>

namespace spillway {

// Regular expressions (engine/base/name_pattern.h) that are looked for
// anywhere in a name. A parameter is frozen that `freeze` is found in, and one that `train_only` is
// given for and not found in; "": not given.
struct FreezeRule {
  std::string freeze;      // --freeze
  std::string train_only;  // --train-only

  bool empty() const { return freeze.empty() && train_only.empty(); }
};

}  // namespace spillway
