#include "engine/run/kept_state.h"

#include <filesystem>
#include <memory>
#include <string>

#include "engine/run/committed_run.h"
#include "engine/run/run_storage.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/format_testing.h"
#include "tests/scratch_directory.h"
#include "tests/swap/store/store_fixture.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

class KeptStateTest : public testing::Test {
 protected:
  KeptStateTest() {
    std::filesystem::create_directory(scratch_ / "swap");
    options_.output = scratch_ / "out";
    options_.swap_paths = {scratch_ / "swap"};
    options_.steps = 4;
  }

  // A run that has committed, and ended.
  void Commit(bool finished) {
    UnitDescription unit;
    unit.name = "u";
    unit.parameters.push_back({"u.weight", {64, 64}});
    RunState state;
    state.model.units = {unit};
    ASSERT_EQ(LayOutParameters(state.model), absl::OkStatus());
    state.step = 4;
    state.finished = finished;
    auto storage = RunStorage::Open(options_);
    ASSERT_TRUE(storage.ok()) << storage.status();
    const StateLayout layout = DescribeState(state.model, {}, DType::kBFloat16, 2048);
    auto store = (*storage)->OpenStore(layout, {}, state);
    ASSERT_TRUE(store.ok()) << store.status();
    WriteEverything(**store, 1);
    ASSERT_EQ((*store)->Commit((*storage)->manifest_path(), {4, EncodeRunState(state)}),
              absl::OkStatus());
  }

  void Export() {
    std::filesystem::create_directory(scratch_ / "out/model");
    WriteFile(scratch_ / "out/model/config.json", "{}");
  }

  bool SwapIsEmpty() const { return std::filesystem::is_empty(scratch_ / "swap"); }

  ScratchDirectory scratch_;
  TrainOptions options_;
};

TEST_F(KeptStateTest, OfAFinishedRunTheStateGoesAndTheRestStays) {
  Commit(/*finished=*/true);
  Export();
  const auto kept = FindKeptState(options_.output);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->runs.size(), 1u);
  EXPECT_TRUE(kept->runs[0].finished);
  EXPECT_GT(kept->bytes(), 0u);
  EXPECT_EQ(kept->Places(), std::filesystem::canonical(scratch_ / "swap").string());
  const auto freed = FreeKeptState(options_.output, /*without_model=*/false);
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_GE(*freed, kept->bytes());
  EXPECT_TRUE(SwapIsEmpty());
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "out/model/config.json"));
  const auto state = ReadFreedState(options_.output);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->step, 4);
  // Who wants the commit is told; once more there is nothing to do.
  ExpectError(OpenCommittedRun(options_.output).status(), absl::StatusCode::kNotFound,
              {"finished at step 4", "its state was freed (spillway clean)"});
  const auto again = FreeKeptState(options_.output, false);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, 0u);
}

TEST_F(KeptStateTest, NothingIsBegunOverItButByOverwriting) {
  Commit(/*finished=*/true);
  Export();
  ASSERT_TRUE(FreeKeptState(options_.output, false).ok());
  for (const bool resume : {false, true}) {
    options_.resume = resume;
    ExpectError(RunStorage::Open(options_).status(), absl::StatusCode::kAlreadyExists,
                {"finished at step 4", "freed", "--overwrite", "nothing was touched"});
  }
  options_.resume = false;
  options_.overwrite = true;
  Commit(/*finished=*/false);
  EXPECT_FALSE(std::filesystem::exists(FreedManifestPath(options_.output, 0)));
  EXPECT_TRUE(OpenCommittedRun(options_.output).ok());
}

TEST_F(KeptStateTest, WhatWouldLoseAnythingIsRefused) {
  Commit(/*finished=*/false);
  ExpectError(FreeKeptState(options_.output, true).status(), absl::StatusCode::kFailedPrecondition,
              {"is not finished", "step 4", "--resume"});
  std::filesystem::remove_all(options_.output);
  options_.overwrite = true;
  Commit(/*finished=*/true);
  ExpectError(FreeKeptState(options_.output, false).status(), absl::StatusCode::kFailedPrecondition,
              {"neither model/ nor adapter/", "spillway export --from", "--force"});
  {
    options_.overwrite = false;
    options_.resume = true;
    const auto in_use = RunStorage::Open(options_);
    ASSERT_TRUE(in_use.ok()) << in_use.status();
    ExpectError(FreeKeptState(options_.output, true).status(),
                absl::StatusCode::kFailedPrecondition, {"in use by process"});
  }
  EXPECT_TRUE(OpenCommittedRun(options_.output).ok());
  ExpectError(FindKeptState(scratch_ / "swap").status(), absl::StatusCode::kNotFound,
              {"no commit"});
  EXPECT_TRUE(FreeKeptState(options_.output, true).ok());
  EXPECT_TRUE(SwapIsEmpty());
}

TEST_F(KeptStateTest, KilledOnceTheCommitWasNoneItIsFinishedByAnotherCall) {
  Commit(/*finished=*/true);
  std::filesystem::rename(ManifestPath(options_.output, 0), FreedManifestPath(options_.output, 0));
  const auto found = FindSwapRuns(scratch_ / "swap");
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].state, SwapRun::State::kDead);
  EXPECT_THAT((*found)[0].reason, HasSubstr("finished, and the state was freed"));
  const auto freed = FreeKeptState(options_.output, false);
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_GT(*freed, 0u);
  EXPECT_TRUE(SwapIsEmpty());
}

}  // namespace
}  // namespace spillway
