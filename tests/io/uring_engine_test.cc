// What the kernel does rarely or never, said in its place: calls of liburing are wrapped by the
// linker (CMakeLists.txt).
#include "io/uring_engine.h"

#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/unique_fd.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

// An error with which nothing is submitted or waited for any more.
int uring_refusal = 0;
// So many waits are interrupted; the first together with its submission, which waits for them.
int uring_interruptions = 0;

}  // namespace
}  // namespace spillway

extern "C" {
int __real_io_uring_submit(io_uring* ring);
int __real_io_uring_submit_and_wait(io_uring* ring, unsigned wait_nr);
int __real_io_uring_submit_and_wait_timeout(io_uring* ring, io_uring_cqe** cqe, unsigned wait_nr,
                                            __kernel_timespec* timeout, sigset_t* mask);
int __real_io_uring_submit_and_get_events(io_uring* ring);
int __real___io_uring_get_cqe(io_uring* ring, io_uring_cqe** cqe, unsigned submit, unsigned wait_nr,
                              sigset_t* mask);

int __wrap_io_uring_submit(io_uring* ring) {
  return spillway::uring_refusal != 0 ? -spillway::uring_refusal : __real_io_uring_submit(ring);
}

int __wrap_io_uring_submit_and_wait(io_uring* ring, unsigned wait_nr) {
  if (spillway::uring_interruptions > 0) return 1;
  return __real_io_uring_submit_and_wait(ring, wait_nr);
}

int __wrap_io_uring_submit_and_wait_timeout(io_uring* ring, io_uring_cqe** cqe, unsigned wait_nr,
                                            __kernel_timespec* timeout, sigset_t* mask) {
  if (spillway::uring_refusal != 0) return -spillway::uring_refusal;
  return __real_io_uring_submit_and_wait_timeout(ring, cqe, wait_nr, timeout, mask);
}

int __wrap_io_uring_submit_and_get_events(io_uring* ring) {
  return spillway::uring_refusal != 0 ? -spillway::uring_refusal
                                      : __real_io_uring_submit_and_get_events(ring);
}

int __wrap___io_uring_get_cqe(io_uring* ring, io_uring_cqe** cqe, unsigned submit, unsigned wait_nr,
                              sigset_t* mask) {
  if (wait_nr > 0 && spillway::uring_interruptions > 0) {
    if (--spillway::uring_interruptions == 0) __real_io_uring_submit(ring);
    return -EINTR;
  }
  return __real___io_uring_get_cqe(ring, cqe, submit, wait_nr, mask);
}
}

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Reads of it are under way until something is written to its other end.
class Pipe final : public File {
 public:
  static std::unique_ptr<Pipe> Make() {
    int ends[2];
    return ::pipe(ends) == 0 ? std::make_unique<Pipe>(ends[0], ends[1]) : nullptr;
  }
  Pipe(int read_end, int write_end)
      : File(read_end, "pipe", /*direct=*/false, 1), read_(read_end), write_(write_end) {}

  void Write(const std::string& text) {
    EXPECT_EQ(::write(write_.get(), text.data(), text.size()), text.size());
  }

  absl::Status Preallocate(uint64_t) override { return absl::OkStatus(); }
  absl::StatusOr<uint64_t> SizeBytes() const override { return 0; }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::Status ReadAt(uint64_t, char*, uint64_t) const override { return absl::OkStatus(); }
  absl::Status WriteAt(uint64_t, const char*, uint64_t) override { return absl::OkStatus(); }

 private:
  const UniqueFd read_;
  const UniqueFd write_;
};

class UringEngineTest : public testing::Test {
 protected:
  struct Read : IoRequest {
    Read(const File* f, AlignedMemory& memory) {
      file = f;
      data = memory.data();
      size_bytes = 8;
      done = [](IoRequest& request, const absl::Status& status) {
        static_cast<Read&>(request).result = status;
      };
    }
    absl::Status result = absl::UnknownError("done has not run");
  };

  void SetUp() override {
    auto engine = UringEngine::Create({.block_bytes = 4096, .depth = 4});
    if (!engine.ok()) GTEST_SKIP() << engine.status();
    engine_ = *std::move(engine);
    pipe_ = Pipe::Make();
    ASSERT_NE(pipe_, nullptr);
  }
  void TearDown() override { uring_refusal = uring_interruptions = 0; }

  void Drain() {
    const absl::Time give_up = absl::Now() + absl::Seconds(60);
    while (engine_->pending() > 0) {
      engine_->Poll(absl::Seconds(1));
      ASSERT_LT(absl::Now(), give_up) << engine_->pending() << " requests never came back";
    }
  }

  AlignedMemory memory_{4096};
  std::unique_ptr<Pipe> pipe_;
  std::unique_ptr<UringEngine> engine_;
};

TEST_F(UringEngineTest, ARingThatBreaksFailsWhatItHasNotTakenAndAllThatFollows) {
  uring_refusal = EBADFD;
  for (int i = 0; i < 2; ++i) {
    Read read(pipe_.get(), memory_);
    engine_->Submit(&read);
    const absl::Time began = absl::Now();
    Drain();
    EXPECT_LT(absl::Now() - began, absl::Seconds(4));  // nothing was waited for
    EXPECT_THAT(std::string(read.result.message()),
                AllOf(HasSubstr("read 8 bytes at offset 0 of pipe"), HasSubstr("EBADFD")));
  }
  engine_->Wake();
  EXPECT_EQ(engine_->Poll(absl::InfiniteDuration()), 0);
}

TEST_F(UringEngineTest, WhatABrokenRingHasTakenMayStillComeBack) {
  Read read(pipe_.get(), memory_);
  engine_->Submit(&read);
  engine_->Poll(absl::ZeroDuration());
  uring_refusal = EBADFD;
  engine_->Poll(absl::ZeroDuration());
  EXPECT_EQ(engine_->pending(), 1);
  pipe_->Write("in time.");
  Drain();
  EXPECT_EQ(read.result, absl::OkStatus());
  EXPECT_EQ(std::string(memory_.data(), 8), "in time.");
}

TEST_F(UringEngineTest, WhatABrokenRingNeverGivesBackFailsAtLast) {
  Read read(pipe_.get(), memory_);
  engine_->Submit(&read);
  engine_->Poll(absl::ZeroDuration());
  uring_refusal = EBADFD;
  Drain();
  EXPECT_THAT(std::string(read.result.message()), HasSubstr("EBADFD"));
}

// A wait of the trial that a signal ends says nothing of the drive, and its read is under way yet.
TEST_F(UringEngineTest, ASignalDoesNotEndTheTrialOfPolling) {
  ScratchDirectory scratch;
  auto file = File::Open(scratch / "data", {.write = true, .create = true});
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Preallocate(4096).ok());
  if (!(*file)->direct()) GTEST_SKIP() << "no direct I/O here";
  uring_interruptions = 3;
  const auto engine =
      UringEngine::Create({.files = {file->get()}, .poll = true, .announce = false});
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ(uring_interruptions, 0);
  for (const auto& refused : (*engine)->features().refused) {
    EXPECT_FALSE(absl::StrContains(refused.reason, "EINTR")) << refused.reason;
  }
}

}  // namespace
}  // namespace spillway
