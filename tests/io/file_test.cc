#include "io/file.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file_system.h"
#include "io/own_files.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> Names(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

mode_t Mode(const std::string& path) {
  struct stat info = {};
  ::stat(path.c_str(), &info);
  return info.st_mode & 07777;
}

TEST(File, IsCreatedForItsOwnerAlone) {
  ScratchDirectory scratch;
  const auto file = File::Open(scratch / "data", {.write = true, .create = true});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(Mode(scratch / "data"), 0600);
  EXPECT_EQ(::fcntl((*file)->fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(File, CreateRefusesWhatExists) {
  ScratchDirectory scratch;
  ASSERT_TRUE(File::Open(scratch / "data", {.write = true, .create = true}).ok());
  const auto again = File::Open(scratch / "data", {.write = true, .create = true});
  EXPECT_TRUE(absl::IsAlreadyExists(again.status())) << again.status();
  EXPECT_THAT(std::string(again.status().message()), HasSubstr(scratch / "data"));
}

TEST(File, SymbolicLinksAreNotFollowed) {
  ScratchDirectory scratch;
  std::ofstream(scratch / "target") << "x";
  std::filesystem::create_symlink(scratch / "target", scratch / "link");
  const auto file = File::Open(scratch / "link", {});
  EXPECT_FALSE(file.ok());
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("ELOOP"));
  std::filesystem::create_symlink(scratch / "nowhere", scratch / "dangling");
  EXPECT_FALSE(File::Open(scratch / "dangling", {.write = true, .create = true}).ok());
  EXPECT_FALSE(std::filesystem::exists(scratch / "nowhere"));
}

TEST(File, DirectOrBufferedIsWhatTheDescriptorSays) {
  ScratchDirectory scratch;
  const auto direct = File::Open(scratch / "data", {.write = true, .create = true});
  ASSERT_TRUE(direct.ok()) << direct.status();
  EXPECT_EQ((::fcntl((*direct)->fd(), F_GETFL) & O_DIRECT) != 0, (*direct)->direct());
  if ((*direct)->direct()) {
    EXPECT_GE((*direct)->alignment_bytes(), 512);
    EXPECT_EQ((*direct)->alignment_bytes() & ((*direct)->alignment_bytes() - 1), 0);
  }
  const auto buffered = File::Open(scratch / "data", {.direct = false});
  ASSERT_TRUE(buffered.ok()) << buffered.status();
  EXPECT_FALSE((*buffered)->direct());
  EXPECT_EQ((*buffered)->alignment_bytes(), 1);
}

// Files of /proc have no direct I/O on any kernel.
TEST(File, FallsBackToBufferedWithOneWarningADirectory) {
  testing::internal::CaptureStderr();
  const auto file = File::Open("/proc/version", {});
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(File::Open("/proc/cpuinfo", {}).ok());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_FALSE((*file)->direct());
  EXPECT_EQ((*file)->alignment_bytes(), 1);
  EXPECT_THAT(log, HasSubstr("spillway: warning: the filesystem of /proc/ has no direct I/O"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

TEST(File, ReadsUpToItsEnd) {
  ScratchDirectory scratch;
  std::ofstream(scratch / "data") << std::string(5000, 'd');
  for (const bool direct : {true, false}) {
    const auto file = File::Open(scratch / "data", {.direct = direct});
    ASSERT_TRUE(file.ok()) << file.status();
    AlignedMemory memory(12288);
    EXPECT_EQ((*file)->ReadUpTo(0, memory.data(), 4096).value(), 4096);
    EXPECT_EQ((*file)->ReadUpTo(0, memory.data(), 12288).value(), 5000);
    EXPECT_EQ(memory.data()[4999], 'd');
    EXPECT_EQ((*file)->ReadUpTo(8192, memory.data(), 4096).value(), 0);
    EXPECT_FALSE((*file)->ReadAt(0, memory.data(), 12288).ok());
  }
}

TEST(File, PreallocateReservesExactlyTheSize) {
  ScratchDirectory scratch;
  const auto file = File::Open(scratch / "data", {.write = true, .create = true});
  ASSERT_TRUE(file.ok()) << file.status();
  for (const uint64_t size_bytes : {8 << 20, 1 << 20, 0, 4096}) {
    ASSERT_TRUE((*file)->Preallocate(size_bytes).ok());
    EXPECT_EQ((*file)->SizeBytes().value(), size_bytes);
    struct stat info = {};
    ASSERT_EQ(::fstat((*file)->fd(), &info), 0);
    EXPECT_GE(static_cast<uint64_t>(info.st_blocks) * 512, size_bytes);
  }
  EXPECT_TRUE((*file)->Sync().ok());
}

TEST(File, PreallocateBeyondTheFreeSpaceSaysWhatIsFree) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, for a small filesystem";
  ScratchDirectory scratch;
  const std::string failure = InChild([&]() -> std::string {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", scratch.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      return "skip";
    }
    auto file = File::Open(scratch / "data", {.write = true, .create = true, .direct = false});
    if (!file.ok()) return file.status().ToString();
    const absl::Status status = (*file)->Preallocate(16 << 20);
    if (!absl::IsResourceExhausted(status)) return absl::StrCat("code: ", status.ToString());
    for (const std::string& part :
         {scratch / "data", std::string("16777216 bytes"), std::string("1048576 bytes are free")}) {
      if (!absl::StrContains(status.message(), part))
        return absl::StrCat(part, " is not in ", status.ToString());
    }
    if ((*file)->SizeBytes().value() != 0) return "space was kept";
    return (*file)->Preallocate(512 << 10).ToString() == "OK" ? "" : "half a MiB should fit";
  });
  if (failure == "skip") GTEST_SKIP() << "mounts are not allowed here";
  EXPECT_EQ(failure, "");
}

TEST(SmallFile, ComesBackWhole) {
  ScratchDirectory scratch;
  for (const size_t size_bytes : {0, 1, 65535, 65536, 65537, 300000}) {
    std::string content(size_bytes, '\0');
    FillRandom(content.data(), size_bytes, size_bytes);
    ASSERT_TRUE(WriteFileAtomically(scratch / "file", content).ok());
    const auto read = ReadSmallFile(scratch / "file");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, content);
  }
}

TEST(SmallFile, LimitIsEnforced) {
  ScratchDirectory scratch;
  ASSERT_TRUE(WriteFileAtomically(scratch / "file", "0123456789").ok());
  EXPECT_TRUE(ReadSmallFile(scratch / "file", 10).ok());
  const auto read = ReadSmallFile(scratch / "file", 9);
  EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << read.status();
}

TEST(SmallFile, LinksAreFollowedOnlyWhereWanted) {
  ScratchDirectory scratch;
  ASSERT_TRUE(WriteFileAtomically(scratch / "file", "x").ok());
  std::filesystem::create_symlink(scratch / "file", scratch / "link");
  EXPECT_TRUE(ReadSmallFile(scratch / "link").ok());
  EXPECT_FALSE(ReadSmallFile(scratch / "link", 100, SymbolicLink::kRefuse).ok());
}

TEST(SmallFile, ANamedPipeIsRefusedAtOnce) {
  ScratchDirectory scratch;
  ASSERT_EQ(::mkfifo(std::string(scratch / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink(scratch / "pipe", scratch / "link");
  for (const char* name : {"pipe", "link"}) {
    const auto read = ReadSmallFile(scratch / name);
    EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << read.status();
    EXPECT_THAT(std::string(read.status().message()),
                HasSubstr(absl::StrCat(name, " is a named pipe")));
  }
}

// The two ends of a pipe that is read by the name of its descriptor.
struct DescriptorPipe {
  DescriptorPipe() { EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0); }
  ~DescriptorPipe() {
    ::close(ends[0]);
    if (ends[1] >= 0) ::close(ends[1]);
  }
  std::string path() const { return absl::StrCat("/dev/fd/", ends[0]); }
  int ends[2] = {-1, -1};
};

TEST(SmallFile, APipeOfADescriptorIsReadToItsEndHoweverSlowItsWriterIs) {
  DescriptorPipe pipe;
  const std::string content(200'000, 'x');
  std::thread writer([&] {
    for (size_t from = 0; from < content.size(); from += 50'000) {
      absl::SleepFor(absl::Milliseconds(20));
      EXPECT_EQ(::write(pipe.ends[1], content.data() + from, 50'000), 50'000);
    }
    ::close(std::exchange(pipe.ends[1], -1));
  });
  const auto read = ReadSmallFile(pipe.path());
  writer.join();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, content);
}

TEST(SmallFile, APipeOfADescriptorHasABound) {
  DescriptorPipe pipe;
  ASSERT_EQ(::write(pipe.ends[1], "0123456789", 10), 10);
  const auto read = ReadSmallFile(pipe.path(), 9);
  EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << read.status();
}

TEST(SmallFile, ASignalEndsTheWaitForAPipe) {
  DescriptorPipe pipe;
  struct sigaction action = {}, before;
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> ended = false;
  std::thread sender([&, reader = ::pthread_self()] {
    while (!ended) {
      ::pthread_kill(reader, SIGUSR1);
      absl::SleepFor(absl::Milliseconds(5));
    }
  });
  const auto read = ReadSmallFile(pipe.path());
  ended = true;
  sender.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_TRUE(absl::IsCancelled(read.status())) << read.status();
}

TEST(SmallFile, MissingFileIsNotFound) {
  ScratchDirectory scratch;
  EXPECT_TRUE(absl::IsNotFound(ReadSmallFile(scratch / "none").status()));
}

TEST(AtomicWrite, ReplacesAndLeavesNothingElse) {
  ScratchDirectory scratch;
  ASSERT_TRUE(WriteFileAtomically(scratch / "file", "old").ok());
  ASSERT_TRUE(WriteFileAtomically(scratch / "file", "new").ok());
  EXPECT_EQ(ReadSmallFile(scratch / "file").value(), "new");
  EXPECT_EQ(Mode(scratch / "file"), 0600);
  EXPECT_EQ(Names(scratch.path()), std::vector<std::string>{"file"});
}

// A write that fails half way (here: at the file size limit) changes nothing.
TEST(AtomicWrite, FailureKeepsTheOldContent) {
  ScratchDirectory scratch;
  ASSERT_TRUE(WriteFileAtomically(scratch / "file", "old").ok());
  const std::string failure = InChild([&]() -> std::string {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {.rlim_cur = 8192, .rlim_max = 8192};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return "setrlimit failed";
    const absl::Status status = WriteFileAtomically(scratch / "file", std::string(20000, 'x'));
    if (status.ok()) return "the write should have failed";
    if (!absl::StrContains(status.message(), "EFBIG")) return status.ToString();
    return "";
  });
  EXPECT_EQ(failure, "");
  EXPECT_EQ(ReadSmallFile(scratch / "file").value(), "old");
  EXPECT_EQ(Names(scratch.path()), std::vector<std::string>{"file"});
}

// A reader at any moment of many replacements, and a writer killed at any
// moment, see one content or the other.
TEST(AtomicWrite, EveryMomentShowsOneWholeContent) {
  ScratchDirectory scratch;
  const std::string a(100000, 'a');
  const std::string b(70000, 'b');
  ASSERT_TRUE(WriteFileAtomically(scratch / "file", a).ok());
  for (int round = 0; round < 10; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) {
        if (!WriteFileAtomically(scratch / "file", b).ok()) ::_exit(1);
        if (!WriteFileAtomically(scratch / "file", a).ok()) ::_exit(1);
      }
    }
    for (int i = 0; i < 50; ++i) {
      const auto content = ReadSmallFile(scratch / "file");
      ASSERT_TRUE(content.ok()) << content.status();
      ASSERT_TRUE(*content == a || *content == b) << content->size();
    }
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    const std::string content = ReadSmallFile(scratch / "file").value();
    ASSERT_TRUE(content == a || content == b);
  }
  for (const std::string& name : Names(scratch.path())) {
    EXPECT_TRUE(name == "file" || IsAtomicWriteLeftover(name)) << name;
  }
}

TEST(AtomicWrite, LeftoversAreKnownByName) {
  EXPECT_TRUE(IsAtomicWriteLeftover("manifest.tmp-0123456789abcdef"));
  for (const char* name : {"manifest", "manifest.tmp-0123456789abcde", ".tmp-0123456789abcdef",
                           "manifest.tmp-0123456789abcdeg", "manifest.tmp-0123456789abcdef0",
                           "manifest.tmp_0123456789abcdef"}) {
    EXPECT_FALSE(IsAtomicWriteLeftover(name)) << name;
  }
}

TEST(SyncDirectory, NamesWhatIsMissing) {
  ScratchDirectory scratch;
  EXPECT_TRUE(SyncDirectory(scratch.path()).ok());
  EXPECT_TRUE(absl::IsNotFound(SyncDirectory(scratch / "none")));
}

TEST(FreeSpaceBytes, IsSomethingOnAFilesystemInUse) {
  ScratchDirectory scratch;
  EXPECT_GT(FreeSpaceBytes(scratch.path()).value(), 0);
  EXPECT_TRUE(absl::IsNotFound(FreeSpaceBytes(scratch / "none").status()));
}

}  // namespace
}  // namespace spillway
