// A forward pass within --device-memory, or what it would need of it.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "engine/torch/forward_pass.h"

namespace spillway {

struct PassWork {
  std::string what;  // "the encoder"
  std::function<absl::Status(ForwardPass& pass)> all;
  // Of it what takes the most memory, alone; `several`: there is more, which goes beside it where
  // there is room.
  std::function<absl::Status(ForwardPass& pass)> largest;
  bool several = false;
};

// Does it, with what it makes beside the pass counted as well. A status that ends in exit code 3
// where there is no room, with the least --device-memory that would do: `largest` is done with as
// much as the machine has to spare. REQUIRES: no other pass is there.
absl::Status RunWithinBudget(const PassWork& work, const Model& model, WeightSource* weights,
                             const ForwardOptions& options);

}  // namespace spillway
