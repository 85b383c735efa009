// Clusters of ranks on a simulated disk, by the thousand: docs/TESTING.md.
#include "gtest/gtest.h"
#include "io/base/log.h"
#include "tests/cluster/cluster_run.h"
#include "tests/cluster/cluster_seeds.h"
#include "tests/sanitizers.h"
#include "tests/sim/sim_seeds.h"

namespace spillway {
namespace {

constexpr uint64_t kShards = kAddressSanitizer ? 1 : 4;
constexpr uint64_t kSeedsAShard = kAddressSanitizer ? 80 : 1250;

// Shard n runs the seeds from a million times n on, so that more of them stay apart.
class Cluster : public testing::TestWithParam<uint64_t> {};

TEST_P(Cluster, Seeds) {
  const std::string failure = RunClusterSeeds(GetParam() * 1'000'000, SeedsHere(kSeedsAShard));
  EXPECT_TRUE(failure.empty()) << failure;
}

INSTANTIATE_TEST_SUITE_P(Shards, Cluster, testing::Range(uint64_t{0}, kShards));

TEST(ClusterSimulation, SeedsThatNeverRan) {
  const std::string failure = RunClusterSeeds(FreshSeed(), kAddressSanitizer ? 20 : 100);
  EXPECT_TRUE(failure.empty()) << failure;
}

// One rank is killed, or the power goes, at every call of its second life: opening, moving on,
// both phases of two commits, and, of every other seed, their copies.
TEST(ClusterSimulation, ARankMayDieAtEveryCall) {
  SetLogLevel(LogLevel::kError);
  constexpr uint64_t kSeeds = kAddressSanitizer ? 1 : 2, kEvery = kAddressSanitizer ? 7 : 1;
  constexpr uint64_t kEveryOfCopies = 5;  // that take thrice the calls
  ClusterTally tally;
  uint64_t lives = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const bool persist = seed % 2 == 1;
    for (const auto kind : {SimDisk::CrashKind::kKill, SimDisk::CrashKind::kPowerLoss}) {
      for (int rank = 0; rank < 3; ++rank) {
        bool struck = true;
        for (uint64_t call = 0; struck; call += persist ? kEveryOfCopies : kEvery) {
          const ClusterResult result = RunClusterCrash(seed, {kind, rank, call, persist}, &struck);
          ASSERT_EQ(result.failure, "")
              << "seed " << seed << ", rank " << rank << ", call " << call;
          tally.Add(result.tally);
          ++lives;
        }
      }
    }
  }
  EXPECT_GT(lives, 300 * kSeeds / kEvery);
  EXPECT_GT(tally.parts_waiting, 30 * kSeeds / kEvery);
  if (kAddressSanitizer) return;  // of every seventh call few are in doubt
  EXPECT_GT(tally.resumes_in_doubt, 4 * kSeeds);
}

TEST(ClusterSimulation, EveryOutcomeOccurs) {
  SetLogLevel(LogLevel::kError);
  ClusterTally tally;
  for (uint64_t seed = 0; seed < (kAddressSanitizer ? 20 : 500); ++seed) {
    const ClusterResult result = RunClusterSeed(seed, false);
    ASSERT_EQ(result.failure, "") << "seed " << seed;
    tally.Add(result.tally);
    if (seed < 20) {
      EXPECT_EQ(result.trace_hash, RunClusterSeed(seed, false).trace_hash) << seed;
    }
  }
  if (kAddressSanitizer) return;  // which does not see all of them in so few
  EXPECT_GT(tally.kills, 20u);
  EXPECT_GT(tally.power_losses, 20u);
  EXPECT_GT(tally.refusals, 10u);
  EXPECT_GT(tally.resumes, 100u);
  EXPECT_GT(tally.resumes_in_doubt, 2u);
  EXPECT_GT(tally.resharded, 50u);
  EXPECT_GT(tally.moved, 10u);
  EXPECT_GT(tally.commits, 300u);
  EXPECT_GT(tally.single_commits, 100u);
  EXPECT_GT(tally.lost, 5u);
  EXPECT_GT(tally.copies, 20u);
  EXPECT_GT(tally.single_copies, 20u);
  EXPECT_GT(tally.resumes_from_copies, 5u);
  EXPECT_GT(tally.resumes_from_single_copies, 5u);
  EXPECT_GT(tally.exports, 50u);
  EXPECT_GT(tally.overwritten, 5u);
  EXPECT_GT(tally.parts_waiting, 5u);
  EXPECT_GT(tally.parts_lost, 5u);
  EXPECT_GT(tally.finished, 200u);
}

}  // namespace
}  // namespace spillway
