// What several ranks leave on disk, and take away. No training: stores are made and committed by
// hand.
#include <filesystem>
#include <string>
#include <utility>

#include "engine/run/rank_commit.h"
#include "engine/run/run_storage.h"
#include "engine/run/swap_inventory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/forwarding_file_system.h"
#include "tests/scratch_directory.h"
#include "tests/swap/store/store_fixture.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using ::testing::SizeIs;

class RunStorageRanksTest : public testing::Test {
 protected:
  RunStorageRanksTest() { fs::create_directory(folder_ / "swap"); }

  TrainOptions Options(int rank, int ranks) const {
    TrainOptions options;
    options.output = RankOutput(folder_ / "out", rank);
    options.swap_paths = {folder_ / "swap"};
    options.rank = rank;
    options.ranks = ranks;
    options.shard_group_size = ranks;
    return options;
  }

  // A rank's part, made durable at `manifest_path` of its output, and what a rank does at its end.
  void Leave(const TrainOptions& options, const std::string& commit_id,
             std::string (*manifest_path)(const std::string&, int),
             const RunStorage::FirstRank* first = nullptr) {
    auto storage = RunStorage::Open(options, first);
    ASSERT_TRUE(storage.ok()) << storage.status();
    RunState state;
    // A rank's shards, of whole blocks.
    const StateLayout layout({{"embedding", 4096}, {"block", 8192}}, SmallLayout().planes(), 2,
                             4096);
    for (const UnitLayout& unit : layout.units()) {
      UnitDescription description;
      description.name = unit.name;
      description.parameters.push_back(
          {unit.name + ".weight", {static_cast<int64_t>(unit.parameters) * options.ranks}});
      state.model.units.push_back(description);
    }
    ASSERT_TRUE(LayOutParameters(state.model).ok());
    auto store = (*storage)->OpenStore(layout, {}, state);
    ASSERT_TRUE(store.ok()) << store.status();
    WriteEverything(**store, 1);
    state.step = 1;
    state.part.commit_id = commit_id;
    ASSERT_EQ((*store)->Commit(manifest_path((*storage)->output(), options.rank),
                               {1, EncodeRunState(state)}),
              absl::OkStatus());
  }

  std::vector<std::string> In(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / name)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  const ScratchDirectory scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(RunStorageRanksTest, ACommitThatMayBeDecidedOnKeepsItsSwap) {
  fs::create_directory(folder_ / "out");
  RunStorage::FirstRank first;
  first.output = folder_ / "out";
  Leave(Options(1, 2), "1-a", PreparedManifestPath, &first);
  EXPECT_THAT(In("swap"), SizeIs(1));
  EXPECT_TRUE(fs::exists(PreparedManifestPath(folder_ / "out/ranks/1")));
}

TEST_F(RunStorageRanksTest, OverwritingTakesAwayWhatMoreRanksHad) {
  fs::create_directory(folder_ / "out");
  RunStorage::FirstRank first;
  first.output = folder_ / "out";
  for (const int rank : {1, 2}) {
    Leave(Options(rank, 3), "1-a", ManifestPath, &first);
  }
  EXPECT_THAT(In("swap"), SizeIs(2));
  TrainOptions options = Options(0, 2);
  options.overwrite = true;
  Leave(options, "1-b", ManifestPath);
  EXPECT_THAT(In("out/ranks"), testing::ElementsAre("1"));
  options = Options(1, 2);
  options.overwrite = true;
  Leave(options, "1-b", ManifestPath, &first);
  EXPECT_THAT(In("swap"), SizeIs(2));
}

// Rank 0 was killed between the rename of its manifest and the sync after it: what the other ranks
// then rename, and what rank 0 removes, would outlive its commit in a power loss.
TEST_F(RunStorageRanksTest, TheFirstRanksCommitIsDurableBeforeAnythingIsBuiltUponIt) {
  Leave(Options(0, 2), "1-a", ManifestPath);
  const std::string out = FileSystem::Real().Resolve((folder_ / "out").string());
  const std::string waits = PreparedManifestPath(out);
  fs::copy(CommitManifestPath(out), waits);
  int synced = 0;
  SyncWatcher files;
  files.on_sync = [&](const std::string& directory) {
    if (directory == out && ++synced == 1) {
      EXPECT_TRUE(fs::exists(waits));
    }
  };
  TrainOptions options = Options(0, 2);
  options.resume = true;
  const auto storage = RunStorage::Open(options, nullptr, files);
  ASSERT_TRUE(storage.ok()) << storage.status();
  EXPECT_GE(synced, 1);
  EXPECT_FALSE(fs::exists(waits));
}

TEST_F(RunStorageRanksTest, APartInItsPlaceIsDurableBeforeTheOneThatWaitedIsRemoved) {
  RunStorage::FirstRank first;
  fs::create_directory(folder_ / "out");
  first.output = folder_ / "out";
  Leave(Options(1, 2), "1-a", ManifestPath, &first);
  const std::string own = folder_ / "out/ranks/1", waits = PreparedManifestPath(own);
  fs::copy(CommitManifestPath(own), waits);
  bool durable = false;
  SyncWatcher files;
  files.on_sync = [&](const std::string& directory) {
    durable |= directory == own && fs::exists(waits);
  };
  ASSERT_EQ(SettleCommit(own, 1, "1-a", files), absl::OkStatus());
  EXPECT_TRUE(durable);
  EXPECT_FALSE(fs::exists(waits));
}

// Rank 1 was killed before it could rename its manifest: its part waits, and is all there is of the
// commit on the swap that it moved to.
TEST_F(RunStorageRanksTest, SwapOfAPartThatWaitsIsNotDead) {
  fs::create_directory(folder_ / "other");
  RunStorage::FirstRank first;
  first.output = folder_ / "out";
  const fs::path own = folder_ / "out/ranks/1";
  Leave(Options(0, 2), "1-a", ManifestPath);
  Leave(Options(1, 2), "1-a", ManifestPath, &first);
  fs::rename(own / "manifest-rank1", own / "aside");
  TrainOptions moved = Options(1, 2);
  moved.swap_paths = {folder_ / "other"};
  Leave(moved, "2-b", PreparedManifestPath, &first);
  fs::rename(own / "aside", own / "manifest-rank1");
  // The first rank's commit: that before, one that was decided on, none at all.
  using State = SwapRun::State;
  for (const auto& [commit_id, expected] :
       {std::pair{"1-a", State::kUnknown}, std::pair{"2-b", State::kResumable},
        std::pair{"", State::kUnknown}}) {
    SCOPED_TRACE(commit_id);
    fs::remove(folder_ / "out/manifest-rank0");
    if (*commit_id != '\0') {
      TrainOptions options = Options(0, 2);
      options.resume = true;
      Leave(options, commit_id, ManifestPath);
    }
    const auto runs = FindSwapRuns(folder_ / "other");
    ASSERT_TRUE(runs.ok()) << runs.status();
    ASSERT_THAT(*runs, SizeIs(1));
    EXPECT_EQ((*runs)[0].state, expected) << (*runs)[0].reason;
    EXPECT_FALSE(RemoveDeadRun((*runs)[0]).ok());
    EXPECT_TRUE(fs::exists((*runs)[0].path + "/tiles"));
    const auto of_first = FindSwapRuns(folder_ / "swap");
    ASSERT_TRUE(of_first.ok()) << of_first.status();
    for (const SwapRun& run : *of_first) {
      const bool is_first = run.output == folder_ / "out";
      EXPECT_EQ(run.state, is_first && *commit_id == '\0' ? State::kDead : State::kResumable)
          << run.reason;
    }
  }
  // What no commit can come of.
  fs::remove(own / "manifest-rank1.prepared");
  const auto runs = FindSwapRuns(folder_ / "other");
  ASSERT_THAT(*runs, SizeIs(1));
  EXPECT_EQ((*runs)[0].state, State::kDead);
  EXPECT_TRUE(RemoveDeadRun((*runs)[0]).ok());
}

// A rank's number is as good a name for OUTPUT as any.
TEST_F(RunStorageRanksTest, AFormerRanksFolderThatIsAnothersOutputStays) {
  Leave(Options(0, 1), "", ManifestPath);
  TrainOptions other = Options(0, 1);
  other.output = folder_ / "out/ranks/3";
  Leave(other, "", ManifestPath);
  TrainOptions options = Options(0, 1);
  options.overwrite = true;
  Leave(options, "", ManifestPath);
  EXPECT_TRUE(fs::exists(folder_ / "out/ranks/3/manifest-rank0"));
  EXPECT_THAT(In("swap"), SizeIs(2));
}

// Power that was lost may bring an older part of the same step back.
TEST_F(RunStorageRanksTest, ACopyWhosePartsAreOfTwoCommitsIsUnfinished) {
  for (const char* const other : {"1-b", "1-a"}) {
    fs::remove_all(folder_ / "out");
    fs::remove_all(folder_ / "swap");
    fs::create_directories(folder_ / "swap");
    RunStorage::FirstRank first;
    first.output = folder_ / "out";
    Leave(Options(0, 2), "1-a", ManifestPath);
    Leave(Options(1, 2), other, ManifestPath, &first);
    const std::string directory = folder_ / "copies";
    {
      auto copies = CommitCopies::Open(directory, {.rank = 0, .ranks = 2});
      auto others = CommitCopies::Open(directory, {.rank = 1, .ranks = 2});
      ASSERT_TRUE(copies.ok() && others.ok());
      for (CommitCopies* one : {copies->get(), others->get()}) {
        const int rank = one == others->get() ? 1 : 0;
        one->Start(CommitManifestPath(RankOutput(folder_ / "out", rank)));
        ASSERT_EQ(one->Wait(), absl::OkStatus());
      }
    }
    auto copies = CommitCopies::Open(directory, {.rank = 0, .ranks = 2});
    ASSERT_TRUE(copies.ok());
    EXPECT_THAT((*copies)->found(), SizeIs(other == std::string("1-a") ? 1 : 0));
    ASSERT_EQ((*copies)->RemoveUnfinished(), absl::OkStatus());
  }
}

}  // namespace
}  // namespace spillway
