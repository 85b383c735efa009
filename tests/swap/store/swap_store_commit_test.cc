// What a commit has named survives: random sequences of writes and commits held
// against an oracle, processes killed at random moments, and system calls that fail.
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <map>
#include <random>
#include <tuple>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/forwarding_file_system.h"
#include "tests/swap/store/store_fixture.h"

namespace {

// The system calls of interest, in order, while a test listens; and one that fails.
std::vector<std::string>* heard = nullptr;
std::string fail_call;
int fail_after = 0;
int fail_errno = 0;

std::string PathOf(int fd) {
  char path[4096];
  const ssize_t size = readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), path, sizeof(path));
  return size < 0 ? "?" : std::string(path, size);
}

// True when the call shall fail with errno.
bool Hear(const char* call, const std::string& path) {
  if (heard == nullptr) return false;
  heard->push_back(absl::StrCat(call, " ", path));
  if (fail_call != call || fail_after-- > 0) return false;
  errno = fail_errno;
  return true;
}

}  // namespace

extern "C" int fdatasync(int fd) {
  if (Hear("fdatasync", PathOf(fd))) return -1;
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}

extern "C" int fsync(int fd) {
  if (Hear("fsync", PathOf(fd))) return -1;
  return static_cast<int>(syscall(SYS_fsync, fd));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (Hear("rename", to)) return -1;
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

extern "C" int fallocate(int fd, int mode, off_t offset, off_t size) {
  if (Hear("fallocate", PathOf(fd))) return -1;
  return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, size));
}

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class Listening {
 public:
  explicit Listening(std::string call = "", int after = 0, int error = 0) {
    heard = &calls_;
    fail_call = std::move(call);
    fail_after = after;
    fail_errno = error;
  }
  ~Listening() {
    heard = nullptr;
    fail_call.clear();
  }
  const std::vector<std::string>& calls() const { return calls_; }

 private:
  std::vector<std::string> calls_;
};

std::unique_ptr<SwapStore> MakeStore(const std::vector<std::string>& directories) {
  auto store = SwapStore::Create(SmallLayout(), {.directories = directories});
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

TEST(SwapStoreCommit, DataIsDurableBeforeTheManifestNamesIt) {
  ScratchDirectory a, b;
  auto store = MakeStore({a.path(), b.path()});
  WriteEverything(*store, 1);
  Listening listening;
  ASSERT_TRUE(store->Commit(a / "manifest", {}).ok());
  EXPECT_THAT(listening.calls(), ElementsAre("fdatasync " + a / "tiles", "fdatasync " + b / "tiles",
                                             StartsWith("fdatasync " + a / "manifest"),
                                             "rename " + a / "manifest", "fsync " + a.path()));
}

TEST(SwapStoreCommit, NewFilesAreDurableInTheirDirectory) {
  ScratchDirectory a, b;
  Listening listening;
  auto store = MakeStore({a.path(), b.path()});
  EXPECT_THAT(listening.calls(), ElementsAre("fallocate " + a / "tiles", "fsync " + a.path(),
                                             "fallocate " + b / "tiles", "fsync " + b.path()));
}

// A run killed right after the rename leaves a commit that is not durable yet. Whoever goes
// on from it writes over the one before (found by the simulation of tests/sim).
TEST(SwapStoreCommit, ACommitIsDurableBeforeARunGoesOnFromIt) {
  ScratchDirectory a, b;
  auto store = MakeStore({a.path()});
  WriteEverything(*store, 1);
  ASSERT_TRUE(store->Commit(b / "manifest", {.step = 1}).ok());
  store.reset();
  CommitRecord record;
  {
    Listening listening;
    ASSERT_TRUE(SwapStore::Open(b / "manifest", /*read_only=*/false, {}, &record).ok());
    EXPECT_THAT(listening.calls(), ElementsAre("fsync " + b.path()));
  }
  {
    Listening listening;
    ASSERT_TRUE(SwapStore::Open(b / "manifest", /*read_only=*/true, {}, &record).ok());
    EXPECT_THAT(listening.calls(), ElementsAre());
  }
  Listening listening("fsync", 0, EIO);
  EXPECT_EQ(SwapStore::Open(b / "manifest", false, {}, &record).status().code(),
            absl::StatusCode::kUnavailable);
}

// Whatever step of a commit fails, the commit before is found by the next reader
// (or the new one, when only its last sync failed), and nothing more is written.
TEST(SwapStoreCommit, AFailedCommitLeavesTheOneBeforeAndEndsTheStore) {
  const std::vector<std::pair<const char*, int>> kFailures = {
      {"fdatasync", 0}, {"fdatasync", 1}, {"fdatasync", 2}, {"rename", 0}, {"fsync", 0}};
  for (const auto& [call, after] : kFailures) {
    SCOPED_TRACE(absl::StrCat(call, " ", after));
    ScratchDirectory a, b;
    auto store = MakeStore({a.path(), b.path()});
    WriteEverything(*store, 1);
    ASSERT_TRUE(store->Commit(a / "manifest", {.step = 1}).ok());
    WriteEverything(*store, 2);
    {
      Listening listening(call, after, EIO);
      const absl::Status status = store->Commit(a / "manifest", {.step = 2});
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(status.message(), HasSubstr("commit of step 2"));
    }
    EXPECT_EQ(store->Commit(a / "manifest", {.step = 2}).code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_DEATH(store->WritableTile(0, 0, 0), "");
    store.reset();
    CommitRecord record;
    auto found = SwapStore::Open(a / "manifest", true, {}, &record);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(record.step, absl::string_view(call) == "fsync" ? 2 : 1);
    EXPECT_TRUE(ReadEverything(**found, record.step).ok());
  }
}

// What is written can be read: the limits are the same, and one that goes beyond is never renamed.
TEST(SwapStoreCommit, AManifestAboveTheLimitOfReadersIsLostBeforeTheRename) {
  ScratchDirectory a;
  auto store =
      SwapStore::Create(SmallLayout(), {.directories = {a.path()}, .most_manifest_bytes = 4096});
  ASSERT_TRUE(store.ok()) << store.status();
  WriteEverything(**store, 1);
  ASSERT_TRUE((*store)->Commit(a / "manifest", {.step = 1}).ok());
  const auto begun = (*store)->BeginCommit(a / "manifest", {2, std::string(4096, 'x')});
  ASSERT_TRUE(begun.ok()) << begun.status();
  bool only_lost = false;
  {
    Listening listening;
    EXPECT_EQ((*store)->MakeDurable(*begun, &only_lost).code(),
              absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(listening.calls(), ElementsAre());
  }
  ASSERT_TRUE(only_lost);
  (*store)->GiveUpCommit();
  WriteEverything(**store, 3);
  EXPECT_TRUE((*store)->Commit(a / "manifest", {.step = 3}).ok());
}

TEST(SwapStoreCommit, AManifestIsReadUpToTheLimitOfItsKind) {
  struct LimitWatcher final : ForwardingFileSystem {
    absl::StatusOr<std::string> ReadSmallFile(absl::string_view path, uint64_t limit) override {
      limit_bytes = limit;
      return Real().ReadSmallFile(path, limit);
    }
    uint64_t limit_bytes = 0;
  };
  ScratchDirectory a;
  auto store = MakeStore({a.path()});
  WriteEverything(*store, 1);
  ASSERT_TRUE(store->Commit(a / "manifest", {.step = 1}).ok());
  store.reset();
  LimitWatcher files;
  CommitRecord record;
  ASSERT_TRUE(SwapStore::Open(a / "manifest", /*read_only=*/true, {}, &record, files).ok());
  EXPECT_EQ(files.limit_bytes, kMostManifestBytes);
}

TEST(SwapStoreCommit, AFullDiskIsAnErrorAtTheStartThatLeavesNothing) {
  ScratchDirectory a, b;
  absl::Status status;
  {
    Listening listening("fallocate", 1, ENOSPC);  // the second directory's
    status = SwapStore::Create(SmallLayout(), {.directories = {a.path(), b.path()}}).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr(b / "tiles"));
  EXPECT_TRUE(std::filesystem::is_empty(a.path()));
  EXPECT_TRUE(std::filesystem::is_empty(b.path()));
}

// Random writes of whole tiles and of their later planes, planes that live in memory
// for a while, commits and reopenings; the oracle is two maps of generations. After
// every single write the last commit is read back whole.
TEST(SwapStoreCommit, TheCommittedStateIsNeverOverwritten) {
  const StateLayout layout = SmallLayout();
  using Key = std::tuple<int, int, int>;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    ScratchDirectory a, b;
    const std::string manifest_path = a / "manifest";
    auto store = MakeStore({a.path(), b.path()});
    std::map<Key, uint64_t> current, committed;
    uint64_t generation = 0;
    const auto write = [&](int unit, int tile, int first, int last) {
      WriteTile(*store, unit, tile, first, last, generation);
      for (int plane = first; plane < last; ++plane) current[{unit, tile, plane}] = generation;
    };
    const auto check = [&](const SwapStore& of, const std::map<Key, uint64_t>& oracle) {
      for (const auto& [key, expected] : oracle) {
        const auto& [unit, tile, plane] = key;
        if (of.IsStale(unit, tile, plane)) continue;
        const absl::Status status = ReadPlane(of, unit, tile, plane, expected);
        ASSERT_TRUE(status.ok()) << status;
      }
    };
    for (int round = 0; round < 120; ++round) {
      ++generation;
      const int unit = static_cast<int>(random() % 3);
      const int tile = static_cast<int>(random() % layout.NumTiles(unit));
      const int dice = static_cast<int>(random() % 10);
      if (dice < 7) {
        const int first = static_cast<int>(random() % 4);
        write(unit, tile, first, 4);
        if (first > 0) store->MarkStale(unit, tile, 0, first);
      } else if (dice < 9) {
        for (int u = 0; u < layout.num_units(); ++u) {
          for (int t = 0; t < layout.NumTiles(u); ++t) {
            for (int p = 0; p < layout.num_planes(); ++p) {
              if (store->IsStale(u, t, p)) write(u, t, p, p + 1);
            }
          }
        }
        ASSERT_TRUE(store->Commit(manifest_path, {.step = generation}).ok());
        committed = current;
      } else if (!committed.empty()) {
        CommitRecord record;
        auto opened = SwapStore::Open(manifest_path, false, {}, &record);
        ASSERT_TRUE(opened.ok()) << opened.status();
        store = *std::move(opened);
        current = committed;
      }
      check(*store, current);
      if (committed.empty()) continue;
      CommitRecord record;
      auto reader = SwapStore::Open(manifest_path, true, {}, &record);
      ASSERT_TRUE(reader.ok()) << reader.status();
      ASSERT_EQ(committed.size(), 8 * 4);
      check(**reader, committed);
    }
    EXPECT_FALSE(committed.empty());
  }
}

TEST(SwapStoreCommit, WhatIsFrozenHasOneSlotThatIsWrittenOnce) {
  const StateLayout layout({{"trained", 5000}, {"frozen", 9000, /*frozen=*/true}},
                           {{Plane::kWeight, 2}, {Plane::kResidual, 2}}, 2, 4096);
  ScratchDirectory a, b;
  const std::string manifest_path = a / "manifest";
  const StoreOptions options{.directories = {a.path(), b.path()}};
  EXPECT_EQ(SwapStore::StorageBytes(layout, options),
            2 * layout.UnitBytes(0) + layout.UnitBytes(1));
  auto store = *SwapStore::Create(layout, options);
  for (uint64_t generation = 1; generation <= 3; ++generation) {
    for (int unit = 0; unit < (generation == 1 ? 2 : 1); ++unit) {
      for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
        WriteTile(*store, unit, tile, 0, layout.NumPlanes(unit), generation);
      }
    }
    ASSERT_TRUE(store->Commit(manifest_path, {.step = generation}).ok());
    CommitRecord record;
    store = *SwapStore::Open(manifest_path, /*read_only=*/false, {}, &record);
    EXPECT_TRUE(store->two_slots());
    EXPECT_EQ(store->layout(), layout);
    for (int tile = 0; tile < layout.NumTiles(1); ++tile) {
      EXPECT_EQ(ReadPlane(*store, 1, tile, 0, /*generation=*/1), absl::OkStatus());
    }
    for (int tile = 0; tile < layout.NumTiles(0); ++tile) {
      EXPECT_EQ(ReadPlane(*store, 0, tile, 1, generation), absl::OkStatus());
    }
  }
  EXPECT_DEATH(store->WritableTile(1, 0, 0), "");
}

// One run's life: opens or creates the store, then writes and commits for ever,
// telling each commit that has returned. Ends by being killed.
[[noreturn]] void TrainUntilKilled(const std::vector<std::string>& directories,
                                   const std::string& manifest_path, int pipe_fd) {
  CommitRecord record;
  auto store = SwapStore::Open(manifest_path, false, {}, &record);
  if (absl::IsNotFound(store.status())) {
    for (const std::string& directory : directories) {
      if (!SwapStore::RemoveLeftovers(directory).ok()) _exit(1);
    }
    store = SwapStore::Create(SmallLayout(), {.directories = directories});
  }
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
    _exit(1);
  }
  for (uint64_t step = record.step + 1;; ++step) {
    WriteEverything(**store, step);
    const CommitRecord commit{step, absl::StrCat("state ", step)};
    if (!(*store)->Commit(manifest_path, commit).ok()) _exit(1);
    if (write(pipe_fd, &step, sizeof(step)) != sizeof(step)) _exit(1);
  }
}

// kill -9 at any moment leaves a whole commit, no older than the last that returned.
// (The page cache survives this; the order of syncs, which a power loss needs, is
// DataIsDurableBeforeTheManifestNamesIt.)
TEST(SwapStoreCommit, AKilledProcessLeavesAWholeCommit) {
  ScratchDirectory a, b;
  const std::vector<std::string> directories = {a.path(), b.path()};
  const std::string manifest_path = a / "manifest";
  std::mt19937 random(1);
  uint64_t last_step = 0;
  for (int life = 0; life < 40; ++life) {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(fds[0]);
      TrainUntilKilled(directories, manifest_path, fds[1]);
    }
    close(fds[1]);
    // Some die before their first commit, most somewhere in one of the next few.
    const int commits_to_wait = static_cast<int>(random() % 3);
    uint64_t returned_step = last_step, step = 0;
    for (int i = 0; i < commits_to_wait && read(fds[0], &step, sizeof(step)) == sizeof(step); ++i) {
      returned_step = step;
    }
    usleep(random() % 15000);
    kill(child, SIGKILL);
    while (read(fds[0], &step, sizeof(step)) == sizeof(step)) returned_step = step;
    close(fds[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "life " << life << " ended by itself, status " << status;

    CommitRecord record;
    auto store = SwapStore::Open(manifest_path, true, {}, &record);
    if (absl::IsNotFound(store.status())) {
      EXPECT_EQ(returned_step, 0);
      continue;
    }
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_GE(record.step, returned_step);
    EXPECT_LE(record.step, returned_step + 1);
    EXPECT_EQ(record.engine_state, absl::StrCat("state ", record.step));
    const absl::Status read_status = ReadEverything(**store, record.step);
    EXPECT_TRUE(read_status.ok()) << "life " << life << ": " << read_status;
    last_step = record.step;
  }
  EXPECT_GT(last_step, 10);
}

}  // namespace
}  // namespace spillway
