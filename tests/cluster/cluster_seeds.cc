#include "tests/cluster/cluster_seeds.h"

#include "io/base/log.h"
#include "tests/cluster/cluster_run.h"
#include "tests/sim/sim_seeds.h"

namespace spillway {

std::string RunClusterSeeds(uint64_t first, uint64_t count) {
  SetLogLevel(LogLevel::kError);
  return RunSeeds(
      "spillway_cluster_test --gtest_filter=*Cluster.Seeds/0", first, count,
      [](uint64_t seed, bool print_trace) { return RunClusterSeed(seed, print_trace).failure; });
}

}  // namespace spillway
