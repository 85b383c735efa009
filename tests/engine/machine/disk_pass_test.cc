#include "engine/machine/disk_pass.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "io/create_io_engine.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

constexpr uint64_t kBlock = 16384;
constexpr int kWindow = 4;

class DiskPassTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) {
      auto file = OpenNamelessFile(folder_.path(), 8 * kBlock);
      ASSERT_TRUE(file.ok()) << file.status();
      files_.push_back(*std::move(file));
    }
    IoEngineOptions io;
    io.announce = false;
    engine_ = *CreateIoEngine(io);
    memory_.resize(kWindow * kBlock + 4096);
    buffer_ = memory_.data() + (4096 - reinterpret_cast<uintptr_t>(memory_.data()) % 4096);
  }

  DiskPassResult Run(PassMix mix, uint64_t blocks, double seconds = 60) {
    DiskPass pass(engine_.get(), {files_[0].get(), files_[1].get()}, buffer_, kBlock, kWindow);
    const auto result =
        pass.Run({.mix = mix, .seconds = seconds, .blocks = blocks, .file_bytes = 8 * kBlock});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(DiskPassResult());
  }

  const ScratchDirectory folder_;
  std::vector<std::unique_ptr<File>> files_;
  std::unique_ptr<IoEngine> engine_;
  std::vector<char> memory_;
  char* buffer_ = nullptr;
};

TEST_F(DiskPassTest, StopsBeforeTheNextBlock) {
  DiskPass pass(engine_.get(), {files_[0].get(), files_[1].get()}, buffer_, kBlock, kWindow);
  int asked = 0;
  const auto result = pass.Run({.mix = PassMix::kWrite,
                                .seconds = 60,
                                .blocks = 1000,
                                .file_bytes = 8 * kBlock,
                                .stopped = [&] { return ++asked > 6; }});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(engine_->stats().written_bytes, 6 * kBlock);
  EXPECT_EQ(engine_->pending(), 0u);
}

TEST_F(DiskPassTest, MovesWhatItWasToldAndCountsWhatTheEngineCounts) {
  const DiskPassResult written = Run(PassMix::kWrite, 16);
  EXPECT_EQ(written.written_bytes, 16 * kBlock);
  EXPECT_EQ(written.read_bytes, 0u);
  const DiskPassResult read = Run(PassMix::kRead, 40);  // more than there is: from the start again
  EXPECT_EQ(read.read_bytes, 40 * kBlock);
  const DiskPassResult mixed = Run(PassMix::kAlternate, 16);
  EXPECT_EQ(mixed.read_bytes, mixed.written_bytes);
  EXPECT_EQ(mixed.bytes(), 16 * kBlock);
  EXPECT_GT(mixed.bytes_per_second(), 0);
  EXPECT_EQ(engine_->stats().read_bytes, 40 * kBlock + mixed.read_bytes);
  EXPECT_EQ(engine_->stats().written_bytes, 16 * kBlock + mixed.written_bytes);
}

TEST_F(DiskPassTest, BothAtOnceGoEachAtItsOwnPace) {
  Run(PassMix::kWrite, 16);
  const DiskPassResult both = Run(PassMix::kBoth, 64);
  EXPECT_EQ(both.bytes(), 64 * kBlock);
  EXPECT_GT(both.read_bytes, 0u);
  EXPECT_GT(both.written_bytes, 0u);
}

TEST_F(DiskPassTest, WritesEveryBlockOfEveryFile) {
  std::memset(buffer_, 0x5a, kWindow * kBlock);
  Run(PassMix::kWrite, 16);
  std::vector<char> expected(8 * kBlock, 0x5a), found(8 * kBlock);
  for (const auto& file : files_) {
    std::ifstream in(absl::StrCat("/proc/self/fd/", file->fd()), std::ios::binary);
    in.read(found.data(), found.size());
    EXPECT_EQ(in.gcount(), static_cast<std::streamsize>(found.size()));
    EXPECT_EQ(found, expected);
  }
}

TEST_F(DiskPassTest, EndsWhenTheTimeIsUp) {
  Run(PassMix::kWrite, 16);
  const DiskPassResult result = Run(PassMix::kRead, 0, 0.05);
  EXPECT_GE(result.seconds, 0.05);
  EXPECT_LT(result.seconds, 5);
  EXPECT_GT(result.read_bytes, 0u);
}

TEST_F(DiskPassTest, AnErrorEndsItWithThePath) {
  const std::string path = folder_ / "short";
  auto file = File::Open(path, {.write = true, .create = true});
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Preallocate(2 * kBlock).ok());
  DiskPass pass(engine_.get(), {file->get()}, buffer_, kBlock, kWindow);
  const auto result = pass.Run({.mix = PassMix::kRead, .seconds = 60, .file_bytes = 8 * kBlock});
  ASSERT_FALSE(result.ok());
  EXPECT_NE(std::string(result.status().message()).find(path), std::string::npos);
  EXPECT_EQ(engine_->pending(), 0u);
  std::filesystem::remove(path);
}

TEST_F(DiskPassTest, ANamelessFileLeavesNothing) {
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_FALSE(OpenNamelessFile(folder_ / "nowhere", kBlock).ok());
}

}  // namespace
}  // namespace spillway
