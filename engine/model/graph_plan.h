// Plans which units keep their forward's graph (its activations) until their backward; the others
// recompute it there. Decided before the run: spare device memory goes to the units that save most
// seconds per byte. Pure functions of values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "swap/plan/swap_plan.h"

namespace spillway {

// Memory and time of keeping graphs in a step, by unit; 0 for the last unit, whose loss has no
// backward of its own. Empty if unknown.
struct GraphCosts {
  std::vector<uint64_t> bytes;        // device memory from the forward to the backward
  std::vector<double> seconds_saved;  // of the backward, which recomputes nothing
  // Memory that the allocator holds beyond the peak, so that every op reuses its blocks; kept
  // graphs must leave it alone.
  uint64_t reuse_bytes = 0;
};

struct GraphPlan {
  std::vector<bool> keeps;   // [unit]
  uint64_t bytes = 0;        // of device memory, between forward and backward
  double seconds_saved = 0;  // of a step's backward

  int kept() const;
  // "  recompute  9 of 13 layers; the others' activations take 78 MiB of device memory"
  std::string Summary() const;
};

// Selects units within `room_bytes` of device memory. A unit's input, which its graph holds, must
// be on the device. Among equal units later ones are preferred: their graphs live shortest.
GraphPlan PlanGraphs(const std::vector<Tier>& inputs, const GraphCosts& costs, uint64_t room_bytes);

}  // namespace spillway
