#include "engine/ranks/join_launcher.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "engine/ranks/launch_environment.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

class JoinLauncherTest : public testing::Test {
 protected:
  // As rank 3 of 6, two machines of three.
  void SetUp() override {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  void TearDown() override {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }

  const std::map<std::string, std::string> variables_ = {{"RANK", "3"},
                                                         {"WORLD_SIZE", "6"},
                                                         {"LOCAL_RANK", "0"},
                                                         {"GROUP_RANK", "1"},
                                                         {"LOCAL_WORLD_SIZE", "3"},
                                                         {"MASTER_ADDR", "127.0.0.1"},
                                                         {"MASTER_PORT", "29500"},
                                                         {"TORCHELASTIC_RUN_ID", "none"}};
};

TEST_F(JoinLauncherTest, TakesRanksFromTheEnvironment) {
  RankOptions options;
  ASSERT_EQ(JoinLauncher(&options), absl::OkStatus());
  EXPECT_EQ(options.rank, 3);
  EXPECT_EQ(options.ranks, 6);
  EXPECT_EQ(options.shard_group_size, 6);
}

TEST_F(JoinLauncherTest, GroupsFollowTheMode) {
  RankOptions options;
  options.shard = Shard::kNone;
  ASSERT_EQ(JoinLauncher(&options), absl::OkStatus());
  EXPECT_EQ(options.shard_group_size, 1);
  options.shard = Shard::kHybrid;
  ASSERT_EQ(JoinLauncher(&options), absl::OkStatus());
  EXPECT_EQ(options.shard_group_size, 3);
  options.shard_group_size = 2;
  ASSERT_EQ(JoinLauncher(&options), absl::OkStatus());
  EXPECT_EQ(options.shard_group_size, 2);
  options.shard_group_size = 4;
  EXPECT_TRUE(absl::IsInvalidArgument(JoinLauncher(&options)));
}

// Who asks again, as training does, is told the same: of one rank a machine not that all are here.
TEST_F(JoinLauncherTest, ThePlaceOnTheMachineStays) {
  for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"}) unsetenv(name);
  setenv("MASTER_ADDR", "pod-0", 1);
  RankOptions options;
  options.shard = Shard::kHybrid;
  ASSERT_EQ(JoinLauncher(&options), absl::OkStatus());
  EXPECT_EQ(options.shard_group_size, 1);
  const auto again = ReadLaunch(ThisEnvironment(), std::nullopt);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->local_rank, 0);
  EXPECT_EQ(again->local_world, 1);
}

TEST_F(JoinLauncherTest, ContradictionsAreErrors) {
  unsetenv("RANK");
  RankOptions options;
  EXPECT_TRUE(absl::IsInvalidArgument(JoinLauncher(&options)));
}

}  // namespace
}  // namespace spillway
