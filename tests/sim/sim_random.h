// Chance from a seed: SplitMix64, the same numbers with every library.
#pragma once

#include <cstdint>

namespace spillway {

class SimRandom {
 public:
  explicit SimRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Below `limit`, which is positive.
  uint64_t Below(uint64_t limit) { return Next() % limit; }
  // In [first, last].
  uint64_t Between(uint64_t first, uint64_t last) { return first + Below(last - first + 1); }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

}  // namespace spillway
