// The benchmark measures what it says, leaves nothing behind and notices wrong bytes.
#include "engine/machine/io_bench.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>

#include "engine/machine/io_bench_bed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBenchBlock = 64 << 10;

IoBenchOptions Small(const ScratchDirectory& scratch) {
  IoBenchOptions options;
  options.directories = {scratch.path()};
  options.size_bytes = 64 * kBenchBlock;
  options.io.block_bytes = kBenchBlock;
  options.io.depth = 4;
  return options;
}

// Also while the files are first written: 64 blocks.
TEST(IoBench, StopsBeforeTheNextBlockAndLeavesNothing) {
  for (const int blocks : {5, 70}) {
    ScratchDirectory scratch;
    IoBenchOptions options = Small(scratch);
    int asked = 0;
    options.seconds = 60;
    options.stopped = [&] { return ++asked > blocks; };
    EXPECT_EQ(RunIoBench(options).status().code(), absl::StatusCode::kCancelled);
    // Each of the slots may ask once more.
    EXPECT_LE(asked, blocks + 20);
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  }
}

struct Case {
  IoBenchOp op;
  IoEngineOptions::Kind kind;
  bool verify;
};

class IoBenchRuns : public testing::TestWithParam<Case> {};

TEST_P(IoBenchRuns, MovesEveryByteOnceAndLeavesNothing) {
  ScratchDirectory scratch;
  IoBenchOptions options = Small(scratch);
  options.op = GetParam().op;
  options.io.kind = GetParam().kind;
  options.verify = GetParam().verify;
  const auto result = RunIoBench(options);
  if (absl::IsPermissionDenied(result.status())) GTEST_SKIP() << result.status();
  ASSERT_TRUE(result.ok()) << result.status();
  const uint64_t all = options.size_bytes;
  const bool mixed = options.op == IoBenchOp::kMixed;
  EXPECT_EQ(result->main.read_bytes, options.op == IoBenchOp::kWrite ? 0 : mixed ? all / 2 : all);
  EXPECT_EQ(result->main.read_bytes + result->main.written_bytes, all);
  EXPECT_EQ(result->main.latency.count, 64);
  EXPECT_GT(result->main.seconds, 0);
  EXPECT_GT(result->main.BytesPerSecond(), 0);
  EXPECT_LE(result->main.latency.p50_seconds, result->main.latency.p99_seconds);
  EXPECT_LE(result->main.latency.p99_seconds, result->main.latency.max_seconds);
  EXPECT_LE(result->main.latency.max_seconds, result->main.seconds);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

INSTANTIATE_TEST_SUITE_P(
    All, IoBenchRuns,
    testing::Values(Case{IoBenchOp::kRead, IoEngineOptions::Kind::kAuto, false},
                    Case{IoBenchOp::kWrite, IoEngineOptions::Kind::kAuto, false},
                    Case{IoBenchOp::kMixed, IoEngineOptions::Kind::kAuto, false},
                    Case{IoBenchOp::kRead, IoEngineOptions::Kind::kAuto, true},
                    Case{IoBenchOp::kWrite, IoEngineOptions::Kind::kAuto, true},
                    Case{IoBenchOp::kMixed, IoEngineOptions::Kind::kAuto, true},
                    Case{IoBenchOp::kRead, IoEngineOptions::Kind::kThreads, true},
                    Case{IoBenchOp::kMixed, IoEngineOptions::Kind::kThreads, true}));

TEST(IoBench, RunsForTheTimeAskedForOverTheFilesAgain) {
  ScratchDirectory scratch;
  IoBenchOptions options = Small(scratch);
  options.op = IoBenchOp::kMixed;
  options.verify = true;
  options.seconds = 0.3;
  const auto result = RunIoBench(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GE(result->main.seconds, 0.3);
  // One more of one kind than of the other at any time.
  const int64_t apart = static_cast<int64_t>(result->main.read_bytes / kBenchBlock) -
                        static_cast<int64_t>(result->main.written_bytes / kBenchBlock);
  EXPECT_LE(std::abs(apart), 1);
}

// Fewer requests than a run has, and each block at hand by itself.
TEST(IoBench, AsManyBlocksAsTheDepthAreEnough) {
  ScratchDirectory scratch;
  for (const IoBenchOp op : {IoBenchOp::kRead, IoBenchOp::kMixed, IoBenchOp::kDemand}) {
    IoBenchOptions options = Small(scratch);
    options.op = op;
    options.verify = op != IoBenchOp::kDemand;
    options.seconds = 0.05;
    const uint64_t least = options.io.depth + (op == IoBenchOp::kDemand ? 1 : 0);
    options.size_bytes = least * kBenchBlock;
    const auto result = RunIoBench(options);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->size_bytes, options.size_bytes);
    options.size_bytes -= 1;
    EXPECT_THAT(std::string(RunIoBench(options).status().message()),
                HasSubstr(absl::StrCat("for ", least,
                                       " blocks of 64 KiB at a time: use at least "
                                       "1MiB")));
  }
}

TEST(IoBench, SeveralPathsShareTheBlocks) {
  ScratchDirectory one, two, three;
  IoBenchOptions options = Small(one);
  options.directories = {one.path(), two.path(), three.path()};
  options.verify = true;
  const auto result = RunIoBench(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->size_bytes, 63 * kBenchBlock);  // whole rows
  EXPECT_EQ(result->main.read_bytes, 63 * kBenchBlock);
}

TEST(IoBench, DemandIsMeasuredAloneAndUnderWriteBack) {
  ScratchDirectory scratch;
  IoBenchOptions options = Small(scratch);
  options.op = IoBenchOp::kDemand;
  options.seconds = 0.1;
  const auto result = RunIoBench(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->unloaded.latency.count, 0);
  EXPECT_EQ(result->unloaded.written_bytes, 0);
  EXPECT_EQ(result->unloaded.latency.count * kBenchBlock, result->unloaded.read_bytes);
  EXPECT_EQ(result->writes.read_bytes, 0);
  EXPECT_GT(result->main.written_bytes, 0);
  EXPECT_EQ(result->main.latency.count * kBenchBlock, result->main.read_bytes);
  EXPECT_NEAR(result->bound_seconds,
              result->unloaded.latency.p99_seconds + (8 << 20) / result->writes.BytesPerSecond(),
              1e-9);
}

TEST(IoBench, VerifyNoticesWrongBytes) {
  ScratchDirectory scratch;
  IoBenchOptions options = Small(scratch);
  options.verify = true;
  const auto bed = IoBenchBed::Create(options, 2);
  ASSERT_TRUE(bed.ok()) << bed.status();
  BenchSlot& slot = (*bed)->slots()[0];
  slot.finished = [](BenchSlot&, const absl::Status& status) { EXPECT_TRUE(status.ok()); };
  (*bed)->Submit(slot, IoOp::kRead, IoClass::kDemand, 17);
  while ((*bed)->engine().pending() > 0) (*bed)->engine().Poll(absl::Seconds(1));
  EXPECT_TRUE((*bed)->Check(slot).ok());
  // The right bytes of another block, and one flipped bit.
  slot.block = 18;
  EXPECT_TRUE(absl::IsDataLoss((*bed)->Check(slot)));
  slot.block = 17;
  slot.data[5000] ^= 1;
  EXPECT_THAT(std::string((*bed)->Check(slot).message()), HasSubstr("not what was written"));
}

TEST(IoBench, ABlockUnderWayIsPassedOver) {
  ScratchDirectory scratch;
  const IoBenchOptions options = Small(scratch);
  const auto made = IoBenchBed::Create(options, 4);
  ASSERT_TRUE(made.ok()) << made.status();
  IoBenchBed& bed = **made;
  for (BenchSlot& slot : bed.slots()) {
    slot.finished = [](BenchSlot&, const absl::Status& status) { EXPECT_TRUE(status.ok()); };
  }
  const auto finish = [&] {
    while (bed.engine().pending() > 0) bed.engine().Poll(absl::Seconds(1));
  };
  // Nothing is polled meanwhile, so nothing finishes: the second writer of block 63 goes on to
  // the next one that is free, at the files' begin.
  EXPECT_EQ(bed.Submit(bed.slots()[0], IoOp::kWrite, IoClass::kWriteBack, 63), 63);
  EXPECT_EQ(bed.Submit(bed.slots()[1], IoOp::kRead, IoClass::kPrefetch, 64), 0);
  EXPECT_EQ(bed.Submit(bed.slots()[2], IoOp::kWrite, IoClass::kWriteBack, 63), 1);
  EXPECT_EQ(bed.Submit(bed.slots()[3], IoOp::kRead, IoClass::kDemand, 63), 2);
  finish();
  EXPECT_EQ(bed.Submit(bed.slots()[2], IoOp::kRead, IoClass::kDemand, 63), 63);
  finish();
}

// Whether a process has a file without a name open in a directory.
bool HasNameless(pid_t process, const std::string& directory) {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", process, "/fd"), error)) {
    const std::string path = std::filesystem::read_symlink(entry.path(), error).string();
    if (path.starts_with(directory + "/") && path.ends_with(" (deleted)")) return true;
  }
  return false;
}

TEST(IoBench, AKilledOneLeavesNothing) {
  ScratchDirectory scratch;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    IoBenchOptions options = Small(scratch);
    options.seconds = 60;
    (void)RunIoBench(options);
    ::_exit(1);
  }
  while (!HasNameless(child, scratch.path())) {
    ASSERT_EQ(::waitpid(child, nullptr, WNOHANG), 0) << "it has ended";
    ::usleep(1000);
  }
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));  // it was still at work
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(IoBench, WhatCannotBeIsRefusedWithTheRemedy) {
  ScratchDirectory scratch;
  const auto message = [&](auto change) {
    IoBenchOptions options = Small(scratch);
    change(options);
    const auto result = RunIoBench(options);
    return result.ok() ? std::string("no error") : std::string(result.status().message());
  };
  EXPECT_THAT(message([](auto& o) { o.size_bytes = uint64_t{1} << 60; }),
              testing::AllOf(HasSubstr("MiB are free"), HasSubstr("smaller --size")));
  EXPECT_THAT(message([](auto& o) { o.size_bytes = kBenchBlock; }), HasSubstr("use at least"));
  EXPECT_THAT(message([](auto& o) { o.io.block_bytes = 0; }), HasSubstr("block size"));
  EXPECT_THAT(message([](auto& o) { o.io.depth = 0; }), HasSubstr("depth"));
  const std::string missing = scratch / "no/such/place";
  EXPECT_THAT(message([&](auto& o) { o.directories = {missing}; }), HasSubstr(missing));
  EXPECT_THAT(message([](auto& o) { o.directories = {}; }), HasSubstr("--path"));
  EXPECT_THAT(message([](auto& o) {
                o.op = IoBenchOp::kDemand;
                o.verify = true;
              }),
              HasSubstr("--verify does not go with"));
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(IoBench, LeaksNoDescriptors) {
  const auto open_files = [] {
    const std::filesystem::directory_iterator fds("/proc/self/fd");
    return std::distance(begin(fds), end(fds));
  };
  ScratchDirectory scratch;
  IoBenchOptions options = Small(scratch);
  ASSERT_TRUE(RunIoBench(options).ok());
  const auto before = open_files();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(RunIoBench(options).ok());
  EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace spillway
