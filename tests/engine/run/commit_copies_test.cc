#include "engine/run/commit_copies.h"

#include <filesystem>
#include <fstream>

#include "engine/run/run_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/forwarding_file_system.h"
#include "tests/swap/store/store_fixture.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

class CommitCopiesTest : public testing::Test {
 protected:
  CommitCopiesTest() : store_(*SwapStore::Create(SmallLayout(), {{swap_.path()}})) {}

  // The run commits `step`, and copies it.
  absl::Status Commit(CommitCopies& copies, uint64_t step) {
    WriteEverything(*store_, step);
    const std::string manifest = output_ / "manifest";
    if (absl::Status status = store_->Commit(manifest, {step, "{}"}); !status.ok()) return status;
    copies.Start(manifest);
    return copies.Wait();
  }

  std::vector<int64_t> Steps(const CommitCopies& copies) {
    std::vector<int64_t> steps;
    for (const auto& copy : copies.found()) steps.push_back(copy.step);
    return steps;
  }

  std::unique_ptr<CommitCopies> Open(int keep) {
    auto copies = CommitCopies::Open(keep_ / "run/copies", {.keep = keep});
    EXPECT_TRUE(copies.ok()) << copies.status();
    return *std::move(copies);
  }

  ScratchDirectory swap_, output_, keep_;
  std::unique_ptr<SwapStore> store_;
};

TEST_F(CommitCopiesTest, TheNewestAreKeptAndHoldTheirOwnStep) {
  {
    auto copies = Open(2);
    EXPECT_TRUE(copies->found().empty());
    for (uint64_t step : {3, 6, 9}) ASSERT_EQ(Commit(*copies, step), absl::OkStatus());
  }
  auto copies = Open(2);
  EXPECT_THAT(Steps(*copies), testing::ElementsAre(9, 6));
  for (const auto& copy : copies->found()) {
    CommitRecord record;
    auto store = SwapStore::Open(CommitManifestPath(copy.directory), true, {}, &record);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(record.step, copy.step);
    EXPECT_EQ(ReadEverything(**store, copy.step), absl::OkStatus());
    // It is for reading: what continued there would overwrite the only slot.
    EXPECT_EQ(
        SwapStore::Open(CommitManifestPath(copy.directory), false, {}, &record).status().code(),
        absl::StatusCode::kFailedPrecondition);
  }
}

TEST_F(CommitCopiesTest, StepsThatARunWentBackBehindAreRemoved) {
  {
    auto copies = Open(3);
    for (uint64_t step : {3, 6, 9}) ASSERT_EQ(Commit(*copies, step), absl::OkStatus());
    ASSERT_EQ(Commit(*copies, 6), absl::OkStatus());  // resumed from 3
  }
  EXPECT_THAT(Steps(*Open(3)), testing::ElementsAre(6, 3));
}

// The newest may be one whose maker was killed before the sync.
TEST_F(CommitCopiesTest, AnOlderCopyGoesOnlyWhenTheNewerOnesAreDurable) {
  {
    auto copies = Open(2);
    for (uint64_t step : {3, 6}) ASSERT_EQ(Commit(*copies, step), absl::OkStatus());
  }
  const std::string directory = keep_ / "run/copies";
  int durable = 0;
  SyncWatcher files;
  files.on_sync = [&](const std::string& synced) {
    if (!fs::exists(directory + "/step-000000000003/manifest-rank0")) return;
    durable += synced == directory + "/step-000000000006";
  };
  auto copies = CommitCopies::Open(directory, {.files = &files});
  ASSERT_TRUE(copies.ok()) << copies.status();
  ASSERT_EQ((*copies)->Prune(6), absl::OkStatus());
  EXPECT_FALSE(fs::exists(directory + "/step-000000000003"));
  EXPECT_EQ(durable, 1);  // the directory itself is synced as it is open
}

TEST_F(CommitCopiesTest, WhatAKilledRunLeftUnfinishedIsRemovedAndNothingElse) {
  { ASSERT_EQ(Commit(*Open(3), 3), absl::OkStatus()); }
  const std::string directory = keep_ / "run/copies";
  fs::create_directories(directory + "/step-000000000006");
  std::ofstream(directory + "/step-000000000006/tiles") << "half";
  fs::create_directories(directory + "/mine");
  std::ofstream(directory + "/step-notes") << "mine too";
  auto copies = Open(3);
  EXPECT_THAT(Steps(*copies), testing::ElementsAre(3));
  EXPECT_TRUE(fs::exists(directory + "/step-000000000006")) << "only looking";
  ASSERT_EQ(copies->RemoveUnfinished(), absl::OkStatus());
  EXPECT_FALSE(fs::exists(directory + "/step-000000000006"));
  EXPECT_TRUE(fs::exists(directory + "/step-000000000003"));
  EXPECT_TRUE(fs::exists(directory + "/mine"));
  EXPECT_TRUE(fs::exists(directory + "/step-notes"));
}

TEST_F(CommitCopiesTest, APlantedLinkIsRefusedWithTheReasonAndNotFollowed) {
  const std::string directory = keep_ / "run/copies";
  std::ofstream(output_ / "precious") << "content";
  {
    auto copies = Open(1);
    ASSERT_EQ(Commit(*copies, 3), absl::OkStatus());
    // While the run works: the next copy, and the removal of the one before it.
    fs::create_directory_symlink(output_.path(), directory + "/step-000000000006");
    const absl::Status in_the_way = Commit(*copies, 6);
    EXPECT_EQ(in_the_way.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(in_the_way.message()), testing::HasSubstr("is a symbolic link"));
    EXPECT_TRUE(fs::exists(output_ / "manifest")) << "it was followed";
    fs::remove(directory + "/step-000000000006");
    fs::create_symlink(output_ / "precious", directory + "/step-000000000003/planted");
    const absl::Status inside = Commit(*copies, 6);
    EXPECT_THAT(std::string(inside.message()), testing::HasSubstr("step-000000000003/planted"));
    EXPECT_TRUE(fs::exists(CommitManifestPath(directory + "/step-000000000003")));
  }
  // And before a run begins.
  const absl::Status opened = CommitCopies::Open(directory, {}).status();
  EXPECT_THAT(std::string(opened.message()), testing::HasSubstr("--persist"));
  EXPECT_THAT(std::string(opened.message()), testing::HasSubstr("planted is a symbolic link"));
  EXPECT_TRUE(fs::exists(output_ / "precious"));
  fs::remove(directory + "/step-000000000003/planted");
  EXPECT_THAT(Steps(*Open(1)), testing::ElementsAre(6, 3));
}

TEST_F(CommitCopiesTest, ADamagedCommitIsNotCopied) {
  auto copies = Open(1);
  ASSERT_EQ(Commit(*copies, 3), absl::OkStatus());
  WriteEverything(*store_, 6);
  ASSERT_EQ(store_->Commit(output_ / "manifest", {6, "{}"}), absl::OkStatus());
  WriteAt(store_->CurrentTile(1, 0, 0, 4), Allocate(4096).get(), 4096);
  copies->Start(output_ / "manifest");
  EXPECT_EQ(copies->Wait().code(), absl::StatusCode::kDataLoss);
  copies.reset();
  EXPECT_THAT(Steps(*Open(1)), testing::ElementsAre(3));
}

TEST_F(CommitCopiesTest, TwoRunsDoNotShareADirectory) {
  auto copies = Open(1);
  EXPECT_EQ(CommitCopies::Open(keep_ / "run/copies", {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// What each of several ranks has to do with it; tests/cluster/ has them together.
TEST_F(CommitCopiesTest, OfSeveralRanksEveryOneCopiesItsPartAndTheFirstOneRemoves) {
  const std::string directory = keep_ / "run/copies";
  const absl::Status unseen = CommitCopies::Open(directory, {.rank = 1, .ranks = 2}).status();
  EXPECT_EQ(unseen.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(unseen.message()), testing::HasSubstr("all ranks share"));
  SyncWatcher files;
  bool durable = false;  // the other's part of the newer one, while the older one is there
  files.on_sync = [&](const std::string& synced) {
    durable |= synced == directory + "/step-000000000009/ranks/1" &&
               fs::exists(directory + "/step-000000000003");
  };
  auto first = CommitCopies::Open(directory, {.rank = 0, .ranks = 2, .files = &files});
  auto other = CommitCopies::Open(directory, {.rank = 1, .ranks = 2});
  ASSERT_TRUE(first.ok() && other.ok()) << first.status() << other.status();
  EXPECT_GT((*first)->NeededBytes(SmallLayout()), 0);
  EXPECT_EQ((*other)->NeededBytes(SmallLayout()), 0);
  const auto both = [&](uint64_t step, bool made) {
    for (CommitCopies* copies : {first->get(), other->get()}) {
      EXPECT_EQ(Commit(*copies, step), absl::OkStatus());
    }
    for (CommitCopies* copies : {first->get(), other->get()}) {
      EXPECT_EQ(copies->Conclude(made), absl::OkStatus());
    }
  };
  both(3, true);
  const std::string part = directory + "/step-000000000003/ranks/1";
  EXPECT_TRUE(fs::exists(CommitManifestPath(part)));
  EXPECT_FALSE(fs::exists(part + "/source"));
  both(6, false);
  EXPECT_TRUE(fs::exists(part)) << "it is the newest that all have";
  EXPECT_FALSE(fs::exists(directory + "/step-000000000006"));
  both(9, true);
  EXPECT_TRUE(durable);
  EXPECT_FALSE(fs::exists(directory + "/step-000000000003"));
  first->reset();
  first = CommitCopies::Open(directory, {.rank = 0, .ranks = 2});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->GoOnFrom(6).value(), false) << "a later one is of no use, and in the way";
  EXPECT_FALSE(fs::exists(directory + "/step-000000000009"));
}

// Removed, moved away, or with another in its place, as a file system that was unmounted or mounted
// over leaves it.
TEST_F(CommitCopiesTest, ADirectoryThatIsNotThereAnyMoreGetsNoCopiesAndNoneIsMadeInItsPlace) {
  const std::string directory = keep_ / "run/copies", away = keep_ / "away";
  const auto expect_missed = [&](CommitCopies& copies, uint64_t step, const std::string& why) {
    const absl::Status status = Commit(copies, step);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(directory));
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(why));
  };
  auto copies = Open(1);
  ASSERT_EQ(Commit(*copies, 3), absl::OkStatus());
  EXPECT_EQ(copies->Missed(), "");
  fs::rename(directory, away);
  expect_missed(*copies, 6, "is not there any more");
  EXPECT_FALSE(fs::exists(directory));
  // What lies below a mount, or is mounted over it: empty, or with copies of other runs.
  fs::create_directories(directory + "/step-000000000001");
  std::ofstream(directory + "/step-000000000001/tiles") << "another run's";
  expect_missed(*copies, 9, "is another directory");
  EXPECT_EQ(copies->Prune(9).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(fs::exists(directory + "/step-000000000001/tiles"));
  EXPECT_FALSE(fs::exists(directory + "/step-000000000009"));
  EXPECT_TRUE(fs::exists(CommitManifestPath(away + "/step-000000000003"))) << "it was pruned";
  fs::remove_all(directory);
  fs::create_directory_symlink(away, directory);
  expect_missed(*copies, 12, "is another directory");
  EXPECT_THAT(copies->Missed(), testing::HasSubstr("3 commits were not copied to " + directory));
  // It is back.
  fs::remove(directory);
  fs::rename(away, directory);
  ASSERT_EQ(Commit(*copies, 15), absl::OkStatus());
  EXPECT_THAT(copies->Missed(), testing::HasSubstr("3 commits"));
  copies.reset();
  EXPECT_THAT(Steps(*Open(1)), testing::ElementsAre(15));
  copies = Open(1);
  fs::remove_all(directory);
  expect_missed(*copies, 18, "is not there any more");
  copies.reset();
  EXPECT_FALSE(fs::exists(directory));
}

TEST_F(CommitCopiesTest, ADirectoryThatGoesWhileACopyIsMadeKeepsTheOldOnes) {
  const std::string directory = keep_ / "run/copies", away = keep_ / "away";
  { ASSERT_EQ(Commit(*Open(1), 3), absl::OkStatus()); }
  SyncWatcher files;
  bool gone = false;
  files.on_sync = [&](const std::string& synced) {
    if (gone || synced != directory + "/step-000000000006") return;
    fs::rename(directory, away);
    fs::create_directory(directory);
    gone = true;
  };
  auto copies = CommitCopies::Open(directory, {.files = &files});
  ASSERT_TRUE(copies.ok()) << copies.status();
  EXPECT_FALSE(Commit(**copies, 6).ok());
  EXPECT_TRUE(gone);
  EXPECT_TRUE(fs::is_empty(directory)) << "a copy is elsewhere";
  EXPECT_TRUE(fs::exists(CommitManifestPath(away + "/step-000000000003")));
}

TEST_F(CommitCopiesTest, ADirectoryThatIsNotThereAnyMoreIsMissedByEachRank) {
  const std::string directory = keep_ / "run/copies";
  auto first = CommitCopies::Open(directory, {.rank = 0, .ranks = 2});
  auto other = CommitCopies::Open(directory, {.rank = 1, .ranks = 2});
  ASSERT_TRUE(first.ok() && other.ok()) << first.status() << other.status();
  ASSERT_EQ(Commit(**other, 3), absl::OkStatus());
  ASSERT_EQ(Commit(**first, 3), absl::OkStatus());
  fs::remove_all(directory);
  EXPECT_EQ((*first)->Conclude(true).code(), absl::StatusCode::kFailedPrecondition);
  for (CommitCopies* copies : {first->get(), other->get()}) {
    EXPECT_EQ(Commit(*copies, 6).code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ((*first)->Conclude(false), absl::OkStatus());
  EXPECT_THAT((*first)->Missed(), testing::HasSubstr("2 commits"));
  EXPECT_FALSE(fs::exists(directory));
}

TEST_F(CommitCopiesTest, ADirectoryThatNothingCameIntoIsTakenBack) {
  { Open(1); }
  EXPECT_FALSE(fs::exists(keep_ / "run/copies"));
}

TEST_F(CommitCopiesTest, RoomForAllCopiesIsAskedForAtTheStart) {
  auto copies = Open(1);
  EXPECT_EQ(copies->CheckSpace(SmallLayout()), absl::OkStatus());
  const StateLayout huge({{"u", uint64_t{1} << 50}}, {{Plane::kWeight, 2}}, 2, 4096 * 1024);
  const absl::Status status = copies->CheckSpace(huge);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--keep"));
}

}  // namespace
}  // namespace spillway
