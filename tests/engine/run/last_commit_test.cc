#include "engine/run/last_commit.h"

#include <fstream>

#include "engine/run/run_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/swap/store/store_fixture.h"

namespace spillway {
namespace {

using absl::StatusCode;

class LastCommitTest : public testing::Test {
 protected:
  LastCommitTest() : store_(*SwapStore::Create(SmallLayout(), {{swap_.path()}})) {}

  void Commit(uint64_t step) {
    WriteEverything(*store_, step);
    RunState state;
    state.step = static_cast<int64_t>(step);
    ASSERT_EQ(store_->Commit(ManifestPath(output_.path(), 0), {step, EncodeRunState(state)}),
              absl::OkStatus());
  }
  // ReadLastCommit of reads that each have the next of these statuses, and before which `meanwhile`
  // is done. Then `calls_` says how many there were.
  absl::Status Read(const std::vector<absl::Status>& statuses,
                    const std::function<void()>& meanwhile) {
    calls_ = 0;
    return ReadLastCommit(output_.path(), [&] {
      meanwhile();
      return statuses[std::min<size_t>(calls_++, statuses.size() - 1)];
    });
  }

  ScratchDirectory swap_, output_;
  std::unique_ptr<SwapStore> store_;
  size_t calls_ = 0;
};

TEST_F(LastCommitTest, AReadThatIsOvertakenIsRepeated) {
  Commit(1);
  uint64_t step = 1;
  const auto commits = [&] { Commit(++step); };
  EXPECT_EQ(Read({absl::DataLossError("x"), absl::DataLossError("x"), absl::OkStatus()}, commits),
            absl::OkStatus());
  EXPECT_EQ(calls_, 3);
  // A part that is missing, too; and the same step again, by a run that was resumed.
  EXPECT_EQ(Read({absl::NotFoundError("x"), absl::OkStatus()}, [&] { Commit(step); }),
            absl::OkStatus());
  EXPECT_EQ(calls_, 2);
}

TEST_F(LastCommitTest, WrongBytesOfACommitThatIsStillTheLastAreTheDrives) {
  Commit(1);
  EXPECT_EQ(Read({absl::DataLossError("x")}, [] {}).code(), StatusCode::kDataLoss);
  EXPECT_EQ(calls_, 1);
  // A commit that was damaged in the middle of a run: the one after it is as good as its read.
  bool once = false;
  const absl::Status status = Read({absl::DataLossError("x")}, [&] {
    if (!once) Commit(2);
    once = true;
  });
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(calls_, 2);
}

TEST_F(LastCommitTest, OtherErrorsAndWhatIsNoRunAreReadOnce) {
  Commit(1);
  EXPECT_EQ(Read({absl::InvalidArgumentError("x")}, [&] { Commit(2); }).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(calls_, 1);
  std::filesystem::remove(ManifestPath(output_.path(), 0));
  EXPECT_EQ(Read({absl::NotFoundError("x")}, [] {}).code(), StatusCode::kNotFound);
  EXPECT_EQ(calls_, 1);
}

TEST_F(LastCommitTest, ARunThatIsAlwaysFasterIsNamed) {
  Commit(1);
  uint64_t step = 1;
  const absl::Status status = Read({absl::DataLossError("x")}, [&] { Commit(++step); });
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("commits (step 11 by now) faster"));
  EXPECT_EQ(calls_, 10);
}

}  // namespace
}  // namespace spillway
