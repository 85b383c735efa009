#include "swap/plan/planner.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "swap/plan/step_simulation.h"
#include "tests/swap/plan/random_requests.h"

namespace spillway {
namespace {

// tests/golden/plan_seconds.txt has the predicted step times of the plans that a search over every
// unit one by one found for the first requests of a seed, one a line. Made by that search (the last
// commit with swap/plan/plan_search.cc) with this loop.
TEST(Planner, PlansAreNoSlowerThanThoseOfTrustedSearch) {
  std::ifstream golden(SPILLWAY_SOURCE_DIR "/tests/golden/plan_seconds.txt");
  RandomRequests requests(20261123);
  double seconds = 0;
  int count = 0;
  for (; golden >> seconds; ++count) {
    const PlanRequest request = requests.Draw();
    const absl::StatusOr<SwapPlan> plan = PlanSwaps(request);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_LE(plan->host_arena_bytes, request.host_bytes) << count;
    EXPECT_LE(plan->device_bytes(), request.device_bytes) << count;
    EXPECT_LE(SimulateStep(*plan, *request.clock).seconds, seconds * (1 + 1e-6)) << count;
  }
  EXPECT_EQ(count, 400);
}

}  // namespace
}  // namespace spillway
