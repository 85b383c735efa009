// The planner's choices, timed by the mover in virtual time.
#include <algorithm>
#include <fstream>

#include "gtest/gtest.h"
#include "swap/forecast/step_simulation.h"
#include "tests/swap/plan/random_requests.h"

namespace spillway {
namespace {

// tests/golden/plan_seconds.txt has how long steps take of the plans that a search by a trusted
// clock found for the first requests of a seed, one a line: the model of a step that stood beside
// the mover before (the last commit with swap/plan/step_simulation.cc), whose plans SimulateStep
// has timed. A search in steps finds a slower plan now and then.
TEST(PlanByClock, PlansAreNoSlowerThanThoseOfATrustedClock) {
  std::ifstream golden(SPILLWAY_SOURCE_DIR "/tests/golden/plan_seconds.txt");
  RandomRequests requests(20261123);
  double trusted = 0, sum = 0;
  int count = 0, slower = 0;
  for (; golden >> trusted; ++count) {
    const PlanRequest request = requests.Draw();
    const absl::StatusOr<SwapPlan> plan = PlanByClock(request);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_LE(plan->host_arena_bytes, request.host_bytes) << count;
    EXPECT_LE(plan->device_bytes(), request.device_bytes) << count;
    const double seconds = SimulateStep(*plan, *request.clock).seconds;
    EXPECT_LE(seconds, 1.07 * trusted) << count;
    slower += seconds > 1.002 * trusted;
    sum += seconds / trusted;
  }
  EXPECT_EQ(count, 50);
  EXPECT_LE(slower, 1);
  EXPECT_LE(sum / count, 1);
}

}  // namespace
}  // namespace spillway
