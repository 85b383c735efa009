// What becomes of a run to which the system refuses memory, at any of its allocations.
//
// It ends: std::bad_alloc reaches whoever called, or ends the process where a thread of the run's
// own met it (tools/last_resort.h says what the program says then). No call hangs, and the last
// commit is whole. Each run is a process, whose `new` is that of this file.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "io/base/aligned_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "swap/mover/whole_store.h"
#include "swap/store/store_reader.h"
#include "tests/sanitizers.h"
#include "tests/scratch_directory.h"
#include "tests/swap/mover/swap_run.h"
#include "tests/swap/mover/swap_training.h"

// A sanitizer has a `new` of its own.
#if !SPILLWAY_ADDRESS_SANITIZER && !defined(__SANITIZE_THREAD__)

namespace spillway {
namespace {

// The allocation that is refused, counted down from there; those after it, too, where `all_after`.
std::atomic<int64_t> allocations_left = INT64_MAX;
std::atomic<bool> all_after = false;
// Larger ones are all refused.
std::atomic<size_t> most_bytes = SIZE_MAX;

bool IsRefused(size_t size_bytes) {
  if (size_bytes > most_bytes) return true;
  const int64_t left = allocations_left.fetch_sub(1) - 1;
  return left == 0 || (left < 0 && all_after);
}

[[gnu::noinline]] void* AllocateOrThrow(size_t size_bytes, size_t alignment_bytes) {
  if (IsRefused(size_bytes)) throw std::bad_alloc();
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment_bytes, sizeof(void*)), size_bytes) != 0) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace
}  // namespace spillway

[[gnu::noinline]] void* operator new(size_t size_bytes) {
  return spillway::AllocateOrThrow(size_bytes, 16);
}
[[gnu::noinline]] void* operator new(size_t size_bytes, std::align_val_t alignment) {
  return spillway::AllocateOrThrow(size_bytes, static_cast<size_t>(alignment));
}
// Not inlined, where they would be taken for a `free` of what `new` gave.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace spillway {
namespace {

// Only what hangs takes as long, on however busy a machine.
constexpr unsigned kSeconds = 120;
// So many allocations are refused, one a run, evenly over all that a run makes.
constexpr int64_t kRuns = 150;
constexpr int kSteps = 4;

// How a run ended.
constexpr int kFinished = 0, kThrew = 3, kTerminated = 4, kFailed = 5;

class RefusedMemory : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kError);
    const PlanRequest unbounded = Request(0);
    request_ = Request(2 * SmallestHost(unbounded));
    const StepSchedule schedule = ScheduleOf(shape_, UpdateMode::kImmediate);
    states_.emplace_back(shape_);
    for (int step = 1; step <= kSteps; ++step) {
      states_.push_back(states_.back());
      states_.back().Step(schedule, step, false);
    }
  }

  PlanRequest Request(uint64_t host_bytes) const {
    return RequestFor(shape_, UpdateMode::kImmediate, TierChoice::kNvme, host_bytes);
  }

  std::string manifest() const { return scratch_ / "manifest"; }

  // Commits after each step; *acknowledged is the last that was said to be made.
  absl::Status Live(std::atomic<int>* acknowledged) const {
    auto run = SwapRun::Create(shape_, request_, scratch_.path(), {}, /*paths=*/2);
    RETURN_IF_ERROR(run.status());
    RETURN_IF_ERROR((*run)->Initialize());
    SwapManager& manager = (*run)->manager();
    for (int step = 1; step <= kSteps; ++step) {
      manager.Enqueue(Program::kTrain);
      UpdateScalars scalars;
      scalars.step = step;
      manager.AnnounceUpdate(scalars);
      RETURN_IF_ERROR(
          (*run)->RunOps(static_cast<int>(request_.schedule.ops.size()), true, states_[step - 1]));
      RETURN_IF_ERROR(manager.StartCommit(manifest(), {static_cast<uint64_t>(step), "{}"},
                                          [=] { *acknowledged = step; }));
      if (step % 2 == 0) RETURN_IF_ERROR(manager.AwaitCommit());
    }
    RETURN_IF_ERROR(manager.Flush());
    RETURN_IF_ERROR((*run)->Compare(states_.back()));
    return manager.AwaitCommit();
  }

  struct End {
    int status = 0;  // as waitpid has it
    int acknowledged = 0;
    int64_t allocations = 0;
  };

  // In a process of its own, the n-th allocation of which is refused.
  End RunRefusing(int64_t n) const {
    std::filesystem::remove(manifest());
    End end;
    struct Shared {
      std::atomic<int> acknowledged;
      std::atomic<int64_t> allocations;
    };
    void* const page =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    SPILLWAY_CHECK(page != MAP_FAILED);
    auto* const shared = new (page) Shared();
    const pid_t child = fork();
    SPILLWAY_CHECK(child >= 0);
    if (child == 0) {
      alarm(kSeconds);
      std::set_terminate([] { _exit(kTerminated); });
      all_after = GetParam();
      allocations_left = n;
      int code = kThrew;
      try {
        code = Live(&shared->acknowledged).ok() ? kFinished : kFailed;
      } catch (const std::bad_alloc&) {
      }
      shared->allocations = n - allocations_left;
      _exit(code);
    }
    SPILLWAY_CHECK(waitpid(child, &end.status, 0) == child);
    end.acknowledged = shared->acknowledged;
    end.allocations = shared->allocations;
    munmap(page, sizeof(Shared));
    return end;
  }

  // The last commit that was said to be made, or one begun later, with every byte.
  void CheckCommit(int acknowledged) const {
    CommitRecord record;
    const auto store = SwapStore::Open(manifest(), /*read_only=*/true, {}, &record);
    if (absl::IsNotFound(store.status()) && acknowledged == 0) return;
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_GE(record.step, static_cast<uint64_t>(acknowledged));
    bool same = true;
    const absl::Status read = ReadStore(**store, 0, 2, [&](const TileView& tile) {
      same &= states_[record.step].Equals(tile);
      return absl::OkStatus();
    });
    EXPECT_EQ(read, absl::OkStatus());
    EXPECT_TRUE(same) << "the commit of step " << record.step << " is another step's";
  }

  const ScratchDirectory scratch_;
  const RunShape shape_ = SmallShape();
  PlanRequest request_;
  std::vector<Oracle> states_;  // [step]
};

TEST_P(RefusedMemory, EndsTheRunAndLeavesTheLastCommitWhole) {
  const End undisturbed = RunRefusing(INT64_MAX / 2);
  ASSERT_TRUE(WIFEXITED(undisturbed.status));
  ASSERT_EQ(WEXITSTATUS(undisturbed.status), kFinished);
  EXPECT_EQ(undisturbed.acknowledged, kSteps);
  ASSERT_GT(undisturbed.allocations, kRuns);
  CheckCommit(kSteps);

  int threw = 0, terminated = 0, with_commit = 0;
  for (int64_t n = 1; n < undisturbed.allocations; n += undisturbed.allocations / kRuns) {
    const End end = RunRefusing(n);
    const std::string which = absl::StrCat("allocation ", n, " of ", undisturbed.allocations);
    ASSERT_TRUE(WIFEXITED(end.status)) << which << ": ended by signal " << WTERMSIG(end.status);
    // Who throws none goes on without what it wanted, or says what that costs.
    threw += WEXITSTATUS(end.status) == kThrew;
    terminated += WEXITSTATUS(end.status) == kTerminated;
    with_commit += end.acknowledged > 0;
    SCOPED_TRACE(which);
    CheckCommit(end.acknowledged);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(threw, kRuns / 10);
  EXPECT_GT(terminated, kRuns / 10);
  EXPECT_GT(with_commit, kRuns / 10);
}

INSTANTIATE_TEST_SUITE_P(AtOneAllocationOrAllThatFollow, RefusedMemory, testing::Bool(),
                         [](const auto& param) { return param.param ? "AllThatFollow" : "One"; });

// A megabyte for the blocks of a model's file.
TEST(RefusedMemoryTest, OfWhoReadsInPlaceIsThrown) {
  const ScratchDirectory scratch;
  RunShape shape = SmallShape();
  shape.frozen.assign(shape.units.size(), false);
  shape.frozen[1] = true;
  const StateLayout layout = LayoutOf(shape);
  StoreOptions options;
  options.directories = {scratch.path()};
  options.in_place = SwapRun::WriteModel(shape, scratch / "model");
  const auto store = SwapStore::Create(layout, options);
  ASSERT_TRUE(store.ok()) << store.status();
  const AlignedBytes buffer = NewAlignedBytes(layout.MaxTileBytes());
  ASSERT_EQ(ReadStoreTile(**store, 1, 0, 0, 1, buffer.get()), absl::OkStatus());
  most_bytes = 1 << 19;
  EXPECT_THROW((void)ReadStoreTile(**store, 1, 0, 0, 1, buffer.get()), std::bad_alloc);
  most_bytes = SIZE_MAX;
}

}  // namespace
}  // namespace spillway

#endif
