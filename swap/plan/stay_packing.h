// Gives addresses to buffers with known lifetimes.
#pragma once

#include <cstdint>
#include <vector>

namespace spillway {

// A buffer that is alive during operations [first, last] of a step of `period`
// operations that repeats for ever. `first` may be negative and `last` may reach
// past the step: such a buffer lives over the turn between two steps.
struct Lifetime {
  int first = 0;
  int last = 0;
};

struct PackedBuffer {
  Lifetime lifetime;
  uint64_t bytes = 0;
  uint64_t offset = 0;  // out
};

// Sets offsets (multiples of 4096) so that buffers whose lifetimes meet do not
// overlap, and returns the bytes used in all. Largest first, each at the lowest
// address that is free for all of its life: not optimal, but within a few percent
// for layers of similar size, and deterministic. REQUIRES: a positive period, and
// lifetimes that do not end before they begin.
uint64_t PackBuffers(int period, std::vector<PackedBuffer>& buffers);

}  // namespace spillway
