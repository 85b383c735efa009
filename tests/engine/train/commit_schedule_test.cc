#include "engine/train/commit_schedule.h"

#include "gtest/gtest.h"

namespace spillway {
namespace {

CommitOptions Auto() {
  CommitOptions options;
  options.commit_seconds = kAutoCommitSeconds;
  options.commit_cost_part = kAutoCommitCostPart;
  return options;
}

TEST(CommitSchedule, ByStepsTimeIsNoMatter) {
  CommitOptions options;
  options.commit_every = 3;
  CommitSchedule schedule(options);
  schedule.Begin(0);
  EXPECT_FALSE(schedule.IsDueBySteps(2));
  EXPECT_TRUE(schedule.IsDueBySteps(3));
  EXPECT_FALSE(schedule.IsDueBySteps(4));
  EXPECT_TRUE(schedule.IsDueBySteps(6));
  EXPECT_FALSE(schedule.IsDueByTime(1e9));
  EXPECT_EQ(schedule.Describe(), "every 3 steps, and at the end");
}

TEST(CommitSchedule, ByTimeItCountsFromTheFirstStepAndFromTheLastCommit) {
  CommitSchedule schedule(Auto());
  schedule.Begin(1000);
  EXPECT_FALSE(schedule.IsDueBySteps(500));
  EXPECT_FALSE(schedule.IsDueByTime(1000 + 899));
  EXPECT_TRUE(schedule.IsDueByTime(1000 + 900));
  schedule.CommitBegan(2000);  // after a long step
  EXPECT_FALSE(schedule.IsDueByTime(2000 + 899));
  EXPECT_TRUE(schedule.IsDueByTime(2000 + 900));
  EXPECT_EQ(schedule.Describe(), "about every 15 min, and at the end");
}

TEST(CommitSchedule, WhatTheForecastSaysACommitCostsIsAHundredthAtMost) {
  CommitSchedule schedule(Auto(), /*cost_seconds=*/30);
  schedule.Begin(0);
  EXPECT_FALSE(schedule.IsDueByTime(2999));
  EXPECT_TRUE(schedule.IsDueByTime(3000));
  EXPECT_EQ(schedule.Describe(), "about every 50 min (each takes about 30 s), and at the end");
  EXPECT_EQ(CommitSchedule(Auto(), 0.1).Describe(), "about every 15 min, and at the end");
}

TEST(CommitSchedule, WhatTheLastCommitCostCountsWhereItIsMore) {
  CommitSchedule schedule(Auto(), /*cost_seconds=*/1);
  schedule.Begin(0);
  schedule.CommitBegan(900);
  schedule.CountWait(8);
  schedule.CountWait(12);
  EXPECT_FALSE(schedule.IsDueByTime(900 + 1999));
  EXPECT_TRUE(schedule.IsDueByTime(900 + 2000));
  // The next one is as cheap as it was predicted.
  schedule.CommitBegan(3000);
  schedule.CountWait(0.5);
  EXPECT_TRUE(schedule.IsDueByTime(3000 + 900));
}

TEST(CommitSchedule, ATimeThatWasAskedForIsKeptWhateverCommitsCost) {
  CommitOptions options;
  options.commit_seconds = 60;
  CommitSchedule schedule(options, /*cost_seconds=*/100);
  schedule.Begin(0);
  schedule.CountWait(50);
  EXPECT_TRUE(schedule.IsDueByTime(60));
  EXPECT_EQ(schedule.Describe(), "about every 60 s, and at the end");
}

TEST(CommitSchedule, WithoutCommitsNoneIsDue) {
  CommitOptions options = Auto();
  options.no_commit = true;
  EXPECT_FALSE(CommitSchedule(options).IsDueByTime(1e9));
  EXPECT_EQ(CommitSchedule(options).Describe(),
            "none (--no-commit): there will be nothing to resume from");
  EXPECT_EQ(CommitSchedule(CommitOptions()).Describe(),
            "at the end only, and when a signal stops the run");
  EXPECT_FALSE(CommitSchedule(CommitOptions()).IsDueByTime(1e9));
}

}  // namespace
}  // namespace spillway
