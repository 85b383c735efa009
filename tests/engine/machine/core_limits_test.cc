#include "engine/machine/core_limits.h"

#include <sched.h>

#include <thread>

#include "gtest/gtest.h"

namespace spillway {
namespace {

TEST(CoreLimits, TheAffinityMaskCounts) {
  EXPECT_GE(UsableCores(), 1);
  EXPECT_LE(UsableCores(), AllowedCores());
  std::thread([] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
    EXPECT_EQ(AllowedCores(), 1);
    EXPECT_EQ(UsableCores(), 1);
  }).join();
}

TEST(UpdateWorkersFor, HaveTheCoresThatComputeLeavesAndAtLeastTwo) {
  EXPECT_EQ(UpdateWorkersFor(16, 10), 6);
  EXPECT_EQ(UpdateWorkersFor(8, 1), 7);
  for (const int cores : {1, 2, 4, 8, 16}) EXPECT_EQ(UpdateWorkersFor(cores, cores), 2) << cores;
  EXPECT_EQ(UpdateWorkersFor(2, 64), 2);  // of a quota, which compute did not ask for
}

TEST(UpdateWorkersFor, ShareALargeMachineWithComputeAndAreBounded) {
  EXPECT_EQ(UpdateWorkersFor(32, 32), 4);
  EXPECT_EQ(UpdateWorkersFor(64, 64), 8);
  EXPECT_EQ(UpdateWorkersFor(256, 256), 16);
  EXPECT_EQ(UpdateWorkersFor(64, 1), 16);
}

}  // namespace
}  // namespace spillway
