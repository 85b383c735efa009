// Whole training runs on a simulated disk, by the thousand: docs/TESTING.md.
#include <algorithm>

#include "gtest/gtest.h"
#include "io/base/log.h"
#include "tests/sanitizers.h"
#include "tests/sim/sim_run.h"
#include "tests/sim/sim_seeds.h"

namespace spillway {
namespace {

// ASan takes ten times as long.
constexpr uint64_t kSeedsAShard = kAddressSanitizer ? 250 : 5000;
constexpr uint64_t kShards = kAddressSanitizer ? 1 : 8;

// Shard n runs the seeds from a million times n on, so that more of them stay apart.
class Sim : public testing::TestWithParam<uint64_t> {};

TEST_P(Sim, Seeds) {
  const std::string failure = RunSimSeeds(GetParam() * 1'000'000, SeedsHere(kSeedsAShard));
  EXPECT_TRUE(failure.empty()) << failure;
}

INSTANTIATE_TEST_SUITE_P(Shards, Sim, testing::Range(uint64_t{0}, kShards));

TEST(Simulation, SeedsThatNeverRan) {
  const std::string failure = RunSimSeeds(FreshSeed(), kAddressSanitizer ? 50 : 500);
  EXPECT_TRUE(failure.empty()) << failure;
}

TEST(Simulation, TheSameSeedGivesTheSameTrace) {
  uint64_t different = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const SimResult first = RunSimSeed(seed, false), second = RunSimSeed(seed, false);
    EXPECT_EQ(first.trace_hash, second.trace_hash) << "seed " << seed;
    EXPECT_EQ(first.failure, second.failure) << "seed " << seed;
    different += first.trace_hash != RunSimSeed(seed + 1, false).trace_hash;
  }
  EXPECT_EQ(different, 50u);
}

// A simulation in which nothing goes wrong shows nothing.
TEST(Simulation, EveryFaultStrikesAndEveryOutcomeOccurs) {
  SimTally tally;
  SetLogLevel(LogLevel::kError);
  // A lie about a small file is seldom found: few are read.
  const auto every_lie_is_found = [&] {
    for (int i = 0; i < kSimFaults; ++i) {
      if (IsLie(static_cast<SimFault>(i)) && tally.lies_detected[i] == 0) return false;
    }
    return true;
  };
  for (uint64_t seed = 0; seed < 800 || (seed < 8000 && !every_lie_is_found()); ++seed) {
    const SimResult result = RunSimSeed(seed, false);
    ASSERT_EQ(result.failure, "") << "seed " << seed;
    tally.Add(result.tally);
  }
  for (int i = 0; i < kSimFaults; ++i) {
    const auto fault = static_cast<SimFault>(i);
    EXPECT_GT(tally.faults[i], 0u) << SimFaultName(fault);
    if (IsLie(fault)) {
      EXPECT_GT(tally.lies_detected[i], 0u) << SimFaultName(fault) << " was never found";
    }
  }
  EXPECT_GT(tally.kills, 50u);
  EXPECT_GT(tally.power_losses, 100u);
  EXPECT_GT(tally.resumes, 200u);
  EXPECT_GT(tally.resumes_in_doubt, 10u);
  EXPECT_GT(tally.commits, 800u);
  EXPECT_GT(tally.steps, 2000u);
  EXPECT_GT(tally.evaluations, 100u);
  EXPECT_GT(tally.spilled_gradients, 100u);
  EXPECT_GT(tally.spilled_inputs, 100u);
  EXPECT_GT(tally.device_lives, 500u);
  EXPECT_GT(tally.streaming_lives, 200u);
  EXPECT_GT(tally.early_begins, 100u);
  EXPECT_GT(tally.given_up_whole, 50u);
  EXPECT_GT(tally.given_up_torn, 10u);
  EXPECT_GT(tally.refusals_reported, 50u);
  EXPECT_GT(tally.lies_reported, 20u);
}

}  // namespace
}  // namespace spillway
