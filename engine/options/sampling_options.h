// How the next token of a text is drawn from the chances that a model gives.
#pragma once

#include <cstdint>

namespace spillway {

struct SamplingOptions {
  double temperature = 0.8;  // 0: the likeliest
  int64_t top_k = 50;        // only the k likeliest; 0: all
  double top_p = 1;          // of those the fewest that have this much of the chances together
  uint64_t seed = 42;
};

}  // namespace spillway
