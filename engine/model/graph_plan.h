// Which units keep their forward's graph (its activations) until their backward, and which
// are computed again there. Decided before the run: the device memory that nothing else needs
// is spent where a byte saves most seconds. Pure functions of values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "swap/plan/swap_plan.h"

namespace spillway {

// What keeping would take and save, by unit, of a whole step; 0 of the last, whose loss has
// no backward of its own. Empty where it is not known.
struct GraphCosts {
  std::vector<uint64_t> bytes;        // of the device, from the forward to the backward
  std::vector<double> seconds_saved;  // of the backward, which recomputes nothing then
  // What the allocator holds beyond the peak so that every op finds its blocks again: kept
  // graphs must not squeeze it out.
  uint64_t reuse_bytes = 0;
};

struct GraphPlan {
  std::vector<bool> keeps;   // [unit]
  uint64_t bytes = 0;        // of device memory, at the turn from forward to backward
  double seconds_saved = 0;  // of a step's backward

  int kept() const;
  // "  recompute  9 of 13 layers; the others' activations take 78 MiB of device memory"
  std::string Summary() const;
};

// In `room_bytes` of device memory; a unit's input, which its graph has, must be on the device.
// Equal units are kept from the last one on, whose graphs live shortest.
GraphPlan PlanGraphs(const std::vector<Tier>& inputs, const GraphCosts& costs, uint64_t room_bytes);

}  // namespace spillway
