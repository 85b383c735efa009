// What is frozen and lies in the model's files, read by the swap manager.
#include "swap/mover/in_place_reads.h"

#include <fcntl.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/swap/mover/swap_training.h"

namespace spillway {
namespace {

using testing::HasSubstr;

class InPlaceReadsTest : public SwapTraining {
 protected:
  // Two units of many tiles are read in place, and the last of them is borrowed.
  static RunShape Shape() {
    RunShape shape;
    shape.units = {2048, 20 * 2048, 2048, 9 * 2048, 2048};
    shape.borrows = {{}, {}, {}, {}, {3}};
    shape.frozen = {false, true, false, true, false};
    shape.in_place = true;
    return shape;
  }

  absl::StatusOr<std::unique_ptr<SwapRun>> Run(const RunShape& shape, UpdateMode update,
                                               TierChoice tier, uint64_t in_place_bytes) {
    PlanRequest request = RequestFor(shape, update, tier, 0);
    request.host_bytes = request.device_bytes = SmallestHost(request);
    if (tier == TierChoice::kHost) request.host_bytes = uint64_t{1} << 30;
    SwapManagerOptions options;
    options.in_place_bytes = in_place_bytes;
    return SwapRun::Create(shape, request, directory(), options);
  }

  // The first byte of the unit, where it lies.
  static void Flip(const SwapStore& store, int unit) {
    const FilePiece& piece = store.in_place()->places().units[unit][0];
    const int fd = open(store.in_place()->places().files[piece.file].path.c_str(), O_RDWR);
    char byte;
    ASSERT_EQ(pread(fd, &byte, 1, piece.file_offset), 1);
    byte ^= 1;
    ASSERT_EQ(pwrite(fd, &byte, 1, piece.file_offset), 1);
    close(fd);
  }
};

TEST_F(InPlaceReadsTest, GiveTheOraclesBitsInAnyMemory) {
  for (const TierChoice tier : {TierChoice::kNvme, TierChoice::kHost}) {
    for (const UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
      for (const uint64_t bytes : {0, 200'000, 8 << 20}) {
        SCOPED_TRACE(testing::Message() << int(tier) << " " << int(update) << " " << bytes);
        auto run = Run(Shape(), update, tier, bytes);
        ASSERT_TRUE(run.ok()) << run.status();
        ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
        Oracle oracle(Shape());
        Train(**run, oracle, Shape(), update, 6, 3);
      }
    }
  }
}

TEST_F(InPlaceReadsTest, TheirMemoryIsBoundedAndEnoughForOne) {
  const StateLayout layout = LayoutOf(Shape());
  const uint64_t one = InPlaceReads::MemoryBytes(layout, 0);
  EXPECT_EQ(one, 2048 * 4 + 16 * 4096);
  EXPECT_EQ(InPlaceReads::MemoryBytes(layout, 3 * one + 5), 3 * one);
  EXPECT_LE(InPlaceReads::MemoryBytes(layout, uint64_t{1} << 40), 32 * one);
}

TEST_F(InPlaceReadsTest, NothingOfThemIsWritten) {
  auto run = Run(Shape(), UpdateMode::kImmediate, TierChoice::kNvme, 0);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
  EXPECT_EQ((*run)->manager().stats().io.written_bytes, 3 * 2048 * 8);
  // Homes in memory are filled from the files at once.
  auto home = Run(Shape(), UpdateMode::kImmediate, TierChoice::kHost, 0);
  ASSERT_TRUE(home.ok()) << home.status();
  ASSERT_EQ((*home)->Initialize(), absl::OkStatus());
  EXPECT_EQ((*home)->manager().stats().io.written_bytes, 0);
  EXPECT_GE((*home)->manager().stats().io.read_bytes, 29 * 2048 * 4);
}

TEST_F(InPlaceReadsTest, ARunGoesOnFromItsCommitAndNoticesWhatHasChangedSince) {
  auto run = Run(Shape(), UpdateMode::kImmediate, TierChoice::kNvme, 0);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
  Oracle oracle(Shape());
  Train(**run, oracle, Shape(), UpdateMode::kImmediate, 3, 5);
  ASSERT_EQ((*run)->manager().Commit(manifest(), {3, "{}"}), absl::OkStatus());
  Flip(*(*run)->store(), 3);
  run->reset();
  CommitRecord record;
  const auto store = SwapStore::Open(manifest(), true, {}, &record);
  ASSERT_TRUE(store.ok()) << store.status();
  const absl::Status status =
      ReadStore(**store, 0, 2, [](const TileView&) { return absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor.3.0"));
}

TEST_F(InPlaceReadsTest, AFileThatChangesOrIsCutUnderTheRunEndsIt) {
  for (const bool cut : {false, true}) {
    auto run = Run(Shape(), UpdateMode::kImmediate, TierChoice::kNvme, 0);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
    Oracle oracle(Shape());
    Train(**run, oracle, Shape(), UpdateMode::kImmediate, 1, 5);
    const InPlaceUnits places = (*run)->store()->in_place()->places();
    const FilePiece& piece = places.units[3][0];
    if (cut) {
      std::filesystem::resize_file(places.files[piece.file].path, piece.file_offset);
    } else {
      Flip(*(*run)->store(), 3);
    }
    SwapManager& manager = (*run)->manager();
    manager.Enqueue(Program::kEvaluate);
    const absl::Status status = (*run)->RunOps(5, false, oracle);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"tensor."));
    EXPECT_THAT(std::string(status.message()), HasSubstr("has changed while"));
    // It comes to its end all the same.
    run->reset();
  }
}

}  // namespace
}  // namespace spillway
