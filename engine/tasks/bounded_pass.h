// Runs a forward pass within --device-memory, or finds the memory that it needs.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "engine/torch/forward_pass.h"

namespace spillway {

struct PassWork {
  std::string what;  // "the encoder"
  std::function<absl::Status(ForwardPass& pass)> all;
  // Computes the part that needs the most memory, alone. `several`: there are other parts, which
  // run beside it if there is room.
  std::function<absl::Status(ForwardPass& pass)> largest;
  bool several = false;
};

// Runs the pass, and counts its other allocations as well. An error of exit code 3 if there is no
// room, with the smallest sufficient --device-memory: `largest` then runs with all of the machine's
// free memory. REQUIRES: there is no other pass.
absl::Status RunWithinBudget(const PassWork& work, const Model& model, WeightSource* weights,
                             const ForwardOptions& options);

}  // namespace spillway
