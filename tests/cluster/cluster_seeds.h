// Many seeds of clusters, one after another.
#pragma once

#include <cstdint>
#include <string>

namespace spillway {

// As RunSimSeeds (tests/sim/sim_seeds.h), of RunClusterSeed.
std::string RunClusterSeeds(uint64_t first, uint64_t count);

}  // namespace spillway
