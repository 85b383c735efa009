// The suite that every I/O engine passes: io_uring, threads, and a third that
// breaks transfers on purpose; each on direct and on buffered files.
#include "io/io_engine.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/thread_engine.h"
#include "io/uring_engine.h"
#include "tests/io/faulty_engine.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kUnit = 4096;  // aligned for every file of these tests

using Factory = absl::StatusOr<std::unique_ptr<IoEngine>> (*)(const IoEngineOptions&);

struct Param {
  const char* name;
  Factory create;
  bool direct;
};

template <typename Engine>
absl::StatusOr<std::unique_ptr<IoEngine>> Create(const IoEngineOptions& options) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(options);
  if (!engine.ok()) return engine.status();
  return *std::move(engine);
}

absl::StatusOr<std::unique_ptr<IoEngine>> CreatePolling(const IoEngineOptions& options) {
  IoEngineOptions with = options;
  with.poll = true;
  return Create<UringEngine>(with);
}

absl::StatusOr<std::unique_ptr<IoEngine>> CreateSqpoll(const IoEngineOptions& options) {
  IoEngineOptions with = options;
  with.sqpoll = true;
  return Create<UringEngine>(with);
}

// A request that checks how it is called back.
struct Checked : IoRequest {
  Checked() {
    done = [](IoRequest& request, const absl::Status& status) {
      auto& self = static_cast<Checked&>(request);
      ++self.calls;
      self.result = status;
      self.caller = std::this_thread::get_id();
      if (self.then) self.then(self);
    };
  }
  int calls = 0;
  absl::Status result = absl::UnknownError("done has not run");
  std::thread::id caller;
  std::function<void(Checked&)> then;
};

#define MAKE_OR_SKIP(...)    \
  do {                       \
    Make(__VA_ARGS__);       \
    if (IsSkipped()) return; \
  } while (false)

class IoEngineConformance : public testing::TestWithParam<Param> {
 protected:
  void Make(IoEngineOptions options) {
    options.memory = given_memory_;
    options.files = given_files_;
    auto engine = GetParam().create(options);
    if (!engine.ok()) GTEST_SKIP() << engine.status();
    engine_ = *std::move(engine);
  }

  std::unique_ptr<File> NewFile(uint64_t size_bytes, const std::string& name = "data") {
    auto file =
        File::Open(scratch_ / name, {.write = true, .create = true, .direct = GetParam().direct});
    SPILLWAY_CHECK(file.ok() && (*file)->Preallocate(size_bytes).ok());
    return *std::move(file);
  }

  static void Set(Checked& request, IoOp op, const File& file, uint64_t offset_bytes, char* data,
                  uint64_t size_bytes, IoClass io_class = IoClass::kDemand) {
    request.op = op;
    request.file = &file;
    request.offset_bytes = offset_bytes;
    request.data = data;
    request.size_bytes = size_bytes;
    request.io_class = io_class;
  }

  // Polls until nothing is pending.
  void Drain() {
    const absl::Time give_up = absl::Now() + absl::Seconds(60);
    while (engine_->pending() > 0) {
      engine_->Poll(absl::Seconds(1));
      ASSERT_LT(absl::Now(), give_up) << engine_->pending() << " requests never came back";
    }
  }

  absl::Status Run(IoOp op, const File& file, uint64_t offset_bytes, char* data,
                   uint64_t size_bytes) {
    Checked request;
    Set(request, op, file, offset_bytes, data, size_bytes);
    engine_->Submit(&request);
    Drain();
    EXPECT_EQ(request.calls, 1);
    return request.result;
  }

  ScratchDirectory scratch_;
  std::vector<IoMemory> given_memory_;
  std::vector<const File*> given_files_;
  std::unique_ptr<IoEngine> engine_;
};

// Registered memory and files beside others, and blocks that are partly in registered
// memory: all the same to the caller.
TEST_P(IoEngineConformance, WhatIsGivenInAdvanceAndWhatIsNotComeBackRight) {
  constexpr uint64_t kSize = 64 * kUnit;
  const auto given = NewFile(kSize, "given");
  const auto other = NewFile(kSize, "other");
  AlignedMemory memory(4 * kSize);
  // Two ranges with a gap between them, the later one first.
  given_memory_ = {{memory.data() + 2 * kSize + 8 * kUnit, kSize},
                   {memory.data(), kSize + 3 * kUnit}};
  given_files_ = {given.get()};
  MAKE_OR_SKIP({.block_bytes = 4 * kUnit, .depth = 8});
  std::mt19937_64 random(5);
  for (int round = 0; round < 40; ++round) {
    const File& file = round % 2 == 0 ? *given : *other;
    AlignedMemory expected(kSize);
    FillRandom(expected.data(), kSize, round);
    char* out = memory.data() + random() % 192 * kUnit;
    std::memcpy(out, expected.data(), kSize);
    ASSERT_TRUE(Run(IoOp::kWrite, file, 0, out, kSize).ok());
    char* in = memory.data() + random() % 192 * kUnit;
    std::memset(memory.data(), 0, memory.size());
    ASSERT_TRUE(Run(IoOp::kRead, file, 0, in, kSize).ok());
    ASSERT_EQ(std::memcmp(in, expected.data(), kSize), 0) << "round " << round;
  }
  engine_ = nullptr;  // before what was given to it
}

TEST_P(IoEngineConformance, RandomWritesAndReadsOfManySizesComeBackRight) {
  MAKE_OR_SKIP({.block_bytes = 32 << 10, .depth = 8, .threads = 3});
  constexpr uint64_t kUnits = 1024;
  const std::unique_ptr<File> file = NewFile(kUnits * kUnit);
  AlignedMemory expected(kUnits * kUnit);
  AlignedMemory memory(kUnits * kUnit);
  uint64_t written_bytes = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    FillRandom(expected.data(), expected.size(), seed);
    for (const IoOp op : {IoOp::kWrite, IoOp::kRead}) {
      char* from = op == IoOp::kWrite ? expected.data() : memory.data();
      std::vector<std::pair<uint64_t, uint64_t>> pieces;
      for (uint64_t unit = 0; unit < kUnits;) {
        const uint64_t count = std::min(1 + random() % (1 << random() % 8), kUnits - unit);
        pieces.emplace_back(unit * kUnit, count * kUnit);
        unit += count;
      }
      std::shuffle(pieces.begin(), pieces.end(), random);
      std::vector<Checked> requests(pieces.size());
      for (size_t i = 0; i < pieces.size(); ++i) {
        const auto [offset_bytes, size_bytes] = pieces[i];
        Set(requests[i], op, *file, offset_bytes, from + offset_bytes, size_bytes,
            static_cast<IoClass>(random() % 3));
        engine_->Submit(&requests[i]);
        if (random() % 8 == 0) engine_->Poll(absl::ZeroDuration());
      }
      Drain();
      for (const Checked& request : requests) {
        ASSERT_EQ(request.calls, 1);
        ASSERT_TRUE(request.result.ok()) << request.result;
      }
    }
    written_bytes += memory.size();
    ASSERT_EQ(std::memcmp(memory.data(), expected.data(), memory.size()), 0);
  }
  EXPECT_GE(engine_->stats().read_bytes, written_bytes);
  EXPECT_GE(engine_->stats().written_bytes, written_bytes);
  EXPECT_GT(engine_->stats().busy_seconds, 0);
}

TEST_P(IoEngineConformance, UnalignedBufferedTransfersComeBackRight) {
  if (GetParam().direct) return;  // of buffered files
  MAKE_OR_SKIP({.block_bytes = 4096, .depth = 4});
  const std::unique_ptr<File> file = NewFile(1 << 20);
  AlignedMemory expected(100001);
  AlignedMemory memory(100001);
  FillRandom(expected.data(), expected.size(), 1);
  ASSERT_TRUE(Run(IoOp::kWrite, *file, 777, expected.data(), expected.size()).ok());
  ASSERT_TRUE(Run(IoOp::kRead, *file, 777, memory.data(), memory.size()).ok());
  EXPECT_EQ(std::memcmp(memory.data(), expected.data(), memory.size()), 0);
}

TEST_P(IoEngineConformance, ManyMoreRequestsThanTheDepthAllComplete) {
  MAKE_OR_SKIP({.block_bytes = 4096, .depth = 2, .threads = 2});
  const std::unique_ptr<File> one = NewFile(64 * kUnit, "one");
  const std::unique_ptr<File> two = NewFile(64 * kUnit, "two");
  AlignedMemory memory(500 * kUnit);
  std::vector<Checked> requests(500);
  for (size_t i = 0; i < requests.size(); ++i) {
    Set(requests[i], IoOp::kRead, i % 2 == 0 ? *one : *two, i % 64 * kUnit,
        memory.data() + i * kUnit, kUnit);
    engine_->Submit(&requests[i]);
  }
  EXPECT_EQ(engine_->pending(), requests.size());
  size_t ran = 0;
  while (engine_->pending() > 0) ran += engine_->Poll(absl::Seconds(10));
  EXPECT_EQ(ran, requests.size());
  for (const Checked& request : requests) {
    EXPECT_EQ(request.calls, 1);
    EXPECT_TRUE(request.result.ok()) << request.result;
  }
}

TEST_P(IoEngineConformance, CallbacksRunInPollOnTheOwnersThread) {
  MAKE_OR_SKIP({.depth = 4});
  const std::unique_ptr<File> file = NewFile(16 * kUnit);
  AlignedMemory memory(16 * kUnit);
  std::vector<Checked> requests(16);
  for (size_t i = 0; i < requests.size(); ++i) {
    Set(requests[i], IoOp::kRead, *file, i * kUnit, memory.data() + i * kUnit, kUnit);
    engine_->Submit(&requests[i]);
  }
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(engine_->pending(), requests.size());
  for (const Checked& request : requests) EXPECT_EQ(request.calls, 0);
  Drain();
  for (const Checked& request : requests) EXPECT_EQ(request.caller, std::this_thread::get_id());
}

TEST_P(IoEngineConformance, TheFirstCallerIsTheOwnerWhoeverCreatedTheEngine) {
  MAKE_OR_SKIP({.depth = 4});
  const std::unique_ptr<File> file = NewFile(kUnit);
  AlignedMemory memory(kUnit);
  absl::Status result;
  std::thread owner([&] { result = Run(IoOp::kRead, *file, 0, memory.data(), kUnit); });
  owner.join();
  EXPECT_TRUE(result.ok()) << result;
}

TEST_P(IoEngineConformance, ACallbackMaySubmitItsOwnAndOtherRequests) {
  MAKE_OR_SKIP({.depth = 2});
  const std::unique_ptr<File> file = NewFile(4 * kUnit);
  AlignedMemory memory(4 * kUnit);
  Checked again;
  Checked other;
  Set(again, IoOp::kRead, *file, 0, memory.data(), kUnit);
  Set(other, IoOp::kRead, *file, kUnit, memory.data() + kUnit, kUnit);
  again.then = [&](Checked& self) {
    if (self.calls == 50) engine_->Submit(&other);
    if (self.calls < 100) engine_->Submit(&self);
  };
  engine_->Submit(&again);
  Drain();
  EXPECT_EQ(again.calls, 100);
  EXPECT_EQ(other.calls, 1);
}

TEST_P(IoEngineConformance, ARequestMayBeGoneOnceItsCallbackHasBegun) {
  MAKE_OR_SKIP({.block_bytes = 4096, .depth = 4});
  const std::unique_ptr<File> file = NewFile(16 * kUnit);
  AlignedMemory memory(10 * 16 * kUnit);
  int ran = 0;
  for (int i = 0; i < 10; ++i) {
    auto* request = new IoRequest;
    request->file = file.get();
    request->data = memory.data() + i * 16 * kUnit;
    request->size_bytes = 16 * kUnit;
    request->context = &ran;
    request->done = [](IoRequest& r, const absl::Status&) {
      ++*static_cast<int*>(r.context);
      delete &r;
    };
    engine_->Submit(request);
  }
  Drain();
  EXPECT_EQ(ran, 10);
}

TEST_P(IoEngineConformance, EmptyRequestCompletes) {
  MAKE_OR_SKIP({});
  const std::unique_ptr<File> file = NewFile(kUnit);
  EXPECT_TRUE(Run(IoOp::kRead, *file, 0, nullptr, 0).ok());
}

TEST_P(IoEngineConformance, ReadBeyondTheEndIsReportedOnceWithPathOffsetAndSize) {
  MAKE_OR_SKIP({.block_bytes = 4096, .depth = 8});
  const std::unique_ptr<File> file = NewFile(4 * kUnit);
  AlignedMemory memory(64 * kUnit);
  const absl::Status status = Run(IoOp::kRead, *file, kUnit, memory.data(), 64 * kUnit);
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("read 262144 bytes at offset 4096 of ", file->path())));
  // And the engine works on.
  EXPECT_TRUE(Run(IoOp::kRead, *file, 0, memory.data(), 4 * kUnit).ok());
}

TEST_P(IoEngineConformance, AFileThatEndsInsideABlockIsReported) {
  MAKE_OR_SKIP({.block_bytes = 64 << 10});
  const std::unique_ptr<File> file = NewFile(4 * kUnit + 100);
  AlignedMemory memory(8 * kUnit);
  const absl::Status status = Run(IoOp::kRead, *file, 0, memory.data(), 8 * kUnit);
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("ends at offset 16484"));
}

TEST_P(IoEngineConformance, AReadMayReachBehindTheEndWhereThatIsNotNeeded) {
  // The end in the last block, at the end of one, and in the only one.
  for (const uint64_t size_bytes : {4 * kUnit + 100, 4 * kUnit, uint64_t{77}}) {
    for (const uint32_t block_bytes : {4096, 64 << 10}) {
      MAKE_OR_SKIP({.block_bytes = block_bytes});
      const std::unique_ptr<File> file = NewFile(size_bytes, absl::StrCat(size_bytes, block_bytes));
      AlignedMemory memory(8 * kUnit);
      Checked request;
      Set(request, IoOp::kRead, *file, 0, memory.data(), 6 * kUnit);
      request.needed_bytes = size_bytes;
      engine_->Submit(&request);
      Drain();
      EXPECT_EQ(request.result, absl::OkStatus());
      request.needed_bytes = size_bytes + 1;
      engine_->Submit(&request);
      Drain();
      EXPECT_TRUE(absl::IsOutOfRange(request.result)) << request.result;
      EXPECT_EQ(request.calls, 2);
    }
  }
}

TEST_P(IoEngineConformance, WriteToAReadOnlyFileIsReported) {
  MAKE_OR_SKIP({.block_bytes = 4096, .depth = 8});
  NewFile(16 * kUnit);
  const auto file = File::Open(scratch_ / "data", {.direct = GetParam().direct});
  ASSERT_TRUE(file.ok()) << file.status();
  AlignedMemory memory(16 * kUnit);
  const absl::Status status = Run(IoOp::kWrite, **file, 0, memory.data(), 16 * kUnit);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("write 65536 bytes at offset 0 of " + scratch_ / "data"),
                    HasSubstr("EBADF")));
}

TEST_P(IoEngineConformance, AFailureLeavesItsNeighboursAlone) {
  MAKE_OR_SKIP({.block_bytes = 4096, .depth = 4});
  const std::unique_ptr<File> file = NewFile(16 * kUnit);
  AlignedMemory memory(9 * 8 * kUnit);
  std::vector<Checked> requests(9);
  for (size_t i = 0; i < requests.size(); ++i) {
    const bool bad = i % 3 == 1;
    Set(requests[i], IoOp::kRead, *file, bad ? 16 * kUnit : 0, memory.data() + i * 8 * kUnit,
        8 * kUnit);
    engine_->Submit(&requests[i]);
  }
  Drain();
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].calls, 1);
    EXPECT_EQ(requests[i].result.ok(), i % 3 != 1) << requests[i].result;
  }
}

TEST_P(IoEngineConformance, FullDiskIsReported) {
  if (GetParam().direct) return;  // of buffered files
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, for a small filesystem";
  const std::string failure = InChild([&]() -> std::string {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", scratch_.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      return "skip";
    }
    auto engine = GetParam().create({.block_bytes = 64 << 10, .depth = 4});
    if (!engine.ok()) return "skip";
    engine_ = *std::move(engine);
    AlignedMemory memory(4 << 20);
    const std::unique_ptr<File> file = NewFile(0);
    const absl::Status status = Run(IoOp::kWrite, *file, 0, memory.data(), memory.size());
    if (!absl::IsResourceExhausted(status)) return status.ToString();
    return absl::StrContains(status.message(), file->path()) ? "" : status.ToString();
  });
  if (failure == "skip") GTEST_SKIP() << "mounts or io_uring are not allowed here";
  EXPECT_EQ(failure, "");
}

TEST_P(IoEngineConformance, FileSizeLimitIsReported) {
  const std::string failure = InChild([&]() -> std::string {
    ::signal(SIGXFSZ, SIG_IGN);
    auto engine = GetParam().create({.block_bytes = 64 << 10, .depth = 4});
    if (!engine.ok()) return "skip";
    engine_ = *std::move(engine);
    const std::unique_ptr<File> file = NewFile(0);
    const rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return "setrlimit failed";
    AlignedMemory memory(4 << 20);
    const absl::Status status = Run(IoOp::kWrite, *file, 0, memory.data(), memory.size());
    return absl::StrContains(status.message(), "EFBIG") ? "" : status.ToString();
  });
  if (failure == "skip") GTEST_SKIP() << "io_uring is refused here";
  EXPECT_EQ(failure, "");
}

// With one transfer at a time the order of completion is the order of starts.
TEST_P(IoEngineConformance, DemandGoesBeforePrefetchBeforeWriteBack) {
  MAKE_OR_SKIP({.block_bytes = 4096, .depth = 1, .threads = 4});
  const std::unique_ptr<File> file = NewFile(12 * kUnit);
  AlignedMemory memory(12 * kUnit);
  std::vector<Checked> requests(12);
  std::vector<IoClass> order;
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto io_class = static_cast<IoClass>(2 - i / 4);
    Set(requests[i], io_class == IoClass::kWriteBack ? IoOp::kWrite : IoOp::kRead, *file, i * kUnit,
        memory.data() + i * kUnit, kUnit, io_class);
    requests[i].then = [&](Checked& self) { order.push_back(self.io_class); };
    engine_->Submit(&requests[i]);
  }
  Drain();
  ASSERT_EQ(order.size(), requests.size());
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_P(IoEngineConformance, PollWithoutTimeoutOnlyLooks) {
  MAKE_OR_SKIP({});
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(engine_->Poll(absl::ZeroDuration()), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST_P(IoEngineConformance, PollReturnsWhenTheTimeIsUp) {
  MAKE_OR_SKIP({});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(engine_->Poll(absl::Milliseconds(30)), 0);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(30));
}

TEST_P(IoEngineConformance, WakeEndsAPollFromAnotherThread) {
  MAKE_OR_SKIP({});
  for (int i = 0; i < 20; ++i) {
    std::thread waker([&] {
      if (i % 2 == 0) absl::SleepFor(absl::Milliseconds(5));
      engine_->Wake();
    });
    EXPECT_EQ(engine_->Poll(absl::InfiniteDuration()), 0);
    waker.join();
  }
}

TEST_P(IoEngineConformance, AWakeBeforePollCountsOnce) {
  MAKE_OR_SKIP({});
  for (int i = 0; i < 3; ++i) {
    engine_->Wake();
    engine_->Wake();
    EXPECT_EQ(engine_->Poll(absl::InfiniteDuration()), 0);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(engine_->Poll(absl::Milliseconds(20)), 0);
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
  }
}

TEST_P(IoEngineConformance, WaitingAfterAWakeTakesNoProcessorTime) {
  MAKE_OR_SKIP({});
  engine_->Wake();
  engine_->Poll(absl::InfiniteDuration());
  const auto processor_time = [] {
    timespec now = {};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return absl::DurationFromTimespec(now);
  };
  const absl::Duration before = processor_time();
  EXPECT_EQ(engine_->Poll(absl::Milliseconds(200)), 0);
  EXPECT_LT(processor_time() - before, absl::Milliseconds(20));
}

// No Wake is lost while transfers come and go.
TEST_P(IoEngineConformance, WakesAmidTrafficAreNotLost) {
  MAKE_OR_SKIP({.block_bytes = 4096, .depth = 4, .threads = 2});
  const std::unique_ptr<File> file = NewFile(64 * kUnit);
  AlignedMemory memory(64 * kUnit);
  std::vector<Checked> requests(4);
  std::atomic<int> asked = 0;
  std::atomic<bool> ended = false;
  std::thread waker([&] {
    for (int i = 0; i < 2000; ++i) {
      asked.store(i + 1);
      engine_->Wake();
      if (i % 16 == 0) std::this_thread::yield();
    }
    ended.store(true);
    engine_->Wake();
  });
  for (size_t i = 0; i < requests.size(); ++i) {
    Set(requests[i], IoOp::kRead, *file, i * 16 * kUnit, memory.data() + i * 16 * kUnit,
        16 * kUnit);
    requests[i].then = [&](Checked& self) {
      if (!ended.load()) engine_->Submit(&self);
    };
    engine_->Submit(&requests[i]);
  }
  while (!ended.load() || engine_->pending() > 0) engine_->Poll(absl::Seconds(60));
  waker.join();
  EXPECT_EQ(asked.load(), 2000);
  for (const Checked& request : requests) EXPECT_TRUE(request.result.ok()) << request.result;
}

TEST_P(IoEngineConformance, StatsMayBeReadFromAnyThread) {
  MAKE_OR_SKIP({.block_bytes = 4096, .depth = 4});
  const std::unique_ptr<File> file = NewFile(64 * kUnit);
  AlignedMemory memory(64 * kUnit);
  std::atomic<bool> ended = false;
  std::thread reader([&] {
    uint64_t last = 0;
    while (!ended.load()) {
      const uint64_t now = engine_->stats().read_bytes;
      EXPECT_GE(now, last);
      last = now;
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(Run(IoOp::kRead, *file, 0, memory.data(), memory.size()).ok());
  }
  ended.store(true);
  reader.join();
  EXPECT_GE(engine_->stats().read_bytes, 20 * memory.size());
}

TEST_P(IoEngineConformance, DestructionWaitsForWhatIsInFlight) {
  const IoEngineOptions options = {.block_bytes = 1 << 20, .depth = 16, .threads = 4};
  constexpr uint64_t kSize = 16 << 20;
  MAKE_OR_SKIP(options);
  const std::unique_ptr<File> file = NewFile(kSize);
  AlignedMemory memory(kSize);
  // Real bytes on the device: what was never written is read without it.
  ASSERT_TRUE(Run(IoOp::kWrite, *file, 0, memory.data(), kSize).ok());
  for (int i = 0; i < 5; ++i) {
    if (engine_ == nullptr) Make(options);
    Checked request;
    Set(request, IoOp::kRead, *file, 0, memory.data(), kSize);
    engine_->Submit(&request);
    engine_->Poll(absl::ZeroDuration());
    engine_ = nullptr;
    // Nothing may write here any more.
    std::memset(memory.data(), 0x11, kSize);
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_EQ(std::count(memory.data(), memory.data() + kSize, '\x11'), kSize);
  }
}

TEST_P(IoEngineConformance, ASecondThreadIsOurOwnMistake) {
  MAKE_OR_SKIP({});
  // Not by fork alone: the pool's threads are running.
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  engine_->Poll(absl::ZeroDuration());
  EXPECT_DEATH(std::thread([&] { engine_->Poll(absl::ZeroDuration()); }).join(), "check failed");
}

INSTANTIATE_TEST_SUITE_P(Engines, IoEngineConformance,
                         testing::Values(Param{"UringDirect", &Create<UringEngine>, true},
                                         Param{"UringBuffered", &Create<UringEngine>, false},
                                         Param{"UringPoll", &CreatePolling, true},
                                         Param{"UringSqpoll", &CreateSqpoll, true},
                                         Param{"ThreadsDirect", &Create<ThreadEngine>, true},
                                         Param{"ThreadsBuffered", &Create<ThreadEngine>, false},
                                         Param{"FaultyDirect", &Create<FaultyEngine>, true},
                                         Param{"FaultyBuffered", &Create<FaultyEngine>, false}),
                         [](const auto& info) { return info.param.name; });

// What only the engine with faults can show: they did happen, and were hidden.
TEST(FaultyEngine, ShortReadIsResumed) {
  ScratchDirectory scratch;
  auto engine = FaultyEngine::Create({.block_bytes = 64 << 10, .depth = 4});
  ASSERT_TRUE(engine.ok());
  auto file = File::Open(scratch / "data", {.write = true, .create = true});
  ASSERT_TRUE(file.ok()) << file.status();
  AlignedMemory memory(1 << 20);
  for (const IoOp op : {IoOp::kWrite, IoOp::kRead}) {
    Checked request;
    request.op = op;
    request.file = file->get();
    request.data = memory.data();
    request.size_bytes = memory.size();
    (*engine)->Submit(&request);
    while ((*engine)->pending() > 0) (*engine)->Poll(absl::Seconds(1));
    EXPECT_TRUE(request.result.ok()) << request.result;
  }
  EXPECT_GT((*engine)->short_transfers(), 0);
  EXPECT_GT((*engine)->interruptions(), 0);
}

}  // namespace
}  // namespace spillway
