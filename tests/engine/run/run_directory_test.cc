#include "engine/run/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/unique_fd.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

mode_t Mode(const std::string& path) {
  struct stat info = {};
  ::stat(path.c_str(), &info);
  return info.st_mode & 07777;
}

TEST(RunDirectory, OneThatOthersMayReadKeepsItsModeAndIsRefusedWhereTheyMayWrite) {
  ScratchDirectory scratch;
  const RunDirectoryOptions readable = {.access = FileAccess::kReadable};
  const mode_t before = ::umask(002);
  EXPECT_TRUE(RunDirectory::Open(scratch / "run", readable).ok());
  ::umask(before);
  EXPECT_EQ(Mode(scratch / "run"), 0755);
  EXPECT_EQ(Mode(scratch / "run/lock"), 0600);
  ASSERT_EQ(::chmod((scratch / "run").c_str(), 0750), 0);
  EXPECT_TRUE(RunDirectory::Open(scratch / "run", readable).ok());
  EXPECT_EQ(Mode(scratch / "run"), 0750);
  ASSERT_EQ(::chmod((scratch / "run").c_str(), 0770), 0);
  EXPECT_EQ(RunDirectory::Open(scratch / "run", readable).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(RunDirectory, IsCreatedForItsOwnerAlone) {
  ScratchDirectory scratch;
  const auto directory = RunDirectory::Open(scratch / "run");
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_EQ((*directory)->path(), scratch / "run");
  EXPECT_EQ(Mode(scratch / "run"), 0700);
  EXPECT_EQ(Mode(scratch / "run/lock"), 0600);
}

TEST(RunDirectory, AnotherProcessIsRefusedWithThePid) {
  ScratchDirectory scratch;
  const auto directory = RunDirectory::Open(scratch / "run");
  ASSERT_TRUE(directory.ok()) << directory.status();
  const std::string holder = absl::StrCat("process ", ::getpid(), " on ");
  EXPECT_EQ(InChild([&]() -> std::string {
              const absl::Status status = RunDirectory::Open(scratch / "run").status();
              if (!absl::IsFailedPrecondition(status)) return status.ToString();
              return absl::StrContains(status.message(), holder) ? "" : status.ToString();
            }),
            "");
}

TEST(RunDirectory, ASecondOpenInTheSameProcessIsRefusedToo) {
  ScratchDirectory scratch;
  const auto directory = RunDirectory::Open(scratch / "run");
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(RunDirectory::Open(scratch / "run").status()));
}

TEST(RunDirectory, IsFreeAgainAfterDestruction) {
  ScratchDirectory scratch;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(RunDirectory::Open(scratch / "run").ok());
}

TEST(RunDirectory, IsFreeAgainAfterItsHolderIsKilled) {
  ScratchDirectory scratch;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto directory = RunDirectory::Open(scratch / "run");
    const char answer = directory.ok() ? 'y' : 'n';
    (void)!::write(ready[1], &answer, 1);
    for (;;) ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  const absl::Status refused = RunDirectory::Open(scratch / "run").status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("process ", child)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(RunDirectory::Open(scratch / "run").ok());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(RunDirectory, ASymbolicLinkIsRefused) {
  ScratchDirectory scratch;
  std::filesystem::create_directory(scratch / "real");
  std::filesystem::create_directory_symlink(scratch / "real", scratch / "link");
  for (const std::string& path : {scratch / "link", scratch / "link/", scratch / "link//"}) {
    const absl::Status status = RunDirectory::Open(path).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("symbolic link"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "real"));
}

TEST(RunDirectory, TheParentMayBeASymbolicLink) {
  ScratchDirectory scratch;
  std::filesystem::create_directory(scratch / "real");
  std::filesystem::create_directory_symlink(scratch / "real", scratch / "link");
  EXPECT_TRUE(RunDirectory::Open(scratch / "link/run").ok());
}

TEST(RunDirectory, ALinkInPlaceOfTheLockIsRefused) {
  ScratchDirectory scratch;
  std::filesystem::create_directory(scratch / "run");
  std::ofstream(scratch / "precious") << "content";
  std::filesystem::create_symlink(scratch / "precious", scratch / "run/lock");
  EXPECT_FALSE(RunDirectory::Open(scratch / "run").ok());
  EXPECT_EQ(std::filesystem::file_size(scratch / "precious"), 7);
}

TEST(RunDirectory, AnotherUsersDirectoryIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make one";
  ScratchDirectory scratch;
  std::filesystem::create_directory(scratch / "run");
  ASSERT_EQ(::chown((scratch / "run").c_str(), kNobody, kNobody), 0);
  const absl::Status status = RunDirectory::Open(scratch / "run").status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("belongs to user 65534, not to user 0"));
}

TEST(RunDirectory, AnotherUsersClosedDirectoryIsRefusedWithItsOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  ScratchDirectory scratch;
  ASSERT_EQ(::chmod(scratch.path().c_str(), 01777), 0);
  ASSERT_TRUE(RunDirectory::Open(scratch / "run").ok());
  EXPECT_EQ(InChild([&]() -> std::string {
              if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) return "setuid failed";
              const absl::Status status = RunDirectory::Open(scratch / "run").status();
              if (!absl::IsPermissionDenied(status)) return status.ToString();
              if (!absl::StrContains(status.message(), "belongs to user 0, not to user 65534")) {
                return status.ToString();
              }
              // A sticky world-writable parent is no obstacle to one of its own.
              return RunDirectory::Open(scratch / "mine").status().ok() ? "" : "own one refused";
            }),
            "");
}

TEST(RunDirectory, ADirectoryThatOthersMayWriteIsRefused) {
  ScratchDirectory scratch;
  std::filesystem::create_directory(scratch / "run");
  ASSERT_EQ(::chmod((scratch / "run").c_str(), 0777), 0);
  const absl::Status status = RunDirectory::Open(scratch / "run").status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("mode 0777"));
}

TEST(RunDirectory, AReadableDirectoryOfOursIsClosedToOthers) {
  ScratchDirectory scratch;
  std::filesystem::create_directory(scratch / "run");
  ASSERT_EQ(::chmod((scratch / "run").c_str(), 0755), 0);
  ASSERT_TRUE(RunDirectory::Open(scratch / "run").ok());
  EXPECT_EQ(Mode(scratch / "run"), 0700);
}

TEST(RunDirectory, AMissingParentIsNamed) {
  ScratchDirectory scratch;
  const absl::Status status = RunDirectory::Open(scratch / "none/run").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(scratch / "none/run"));
  EXPECT_TRUE(absl::IsInvalidArgument(RunDirectory::Open("").status()));
}

TEST(RunDirectory, AFileIsNotADirectory) {
  ScratchDirectory scratch;
  std::ofstream(scratch / "run") << "x";
  EXPECT_FALSE(RunDirectory::Open(scratch / "run").ok());
}

TEST(RunDirectory, ARefusedOwnerIsToldTheRunAndSinceWhen) {
  ScratchDirectory scratch;
  const auto since = [] {
    return absl::StrCat(" since ", TimeText(::time(nullptr)).substr(0, 15));
  };
  const std::string earliest = since();
  const auto directory = RunDirectory::Open(scratch / "run", {.output = "/scratch/my out"});
  ASSERT_TRUE(directory.ok()) << directory.status();
  const std::string message(RunDirectory::Open(scratch / "run").status().message());
  EXPECT_THAT(message, HasSubstr(absl::StrCat("process ", ::getpid(), " on ")));
  EXPECT_THAT(message, testing::AnyOf(HasSubstr(earliest), HasSubstr(since())));
  EXPECT_THAT(message, HasSubstr("which runs /scratch/my out"));
  EXPECT_THAT(message, testing::Not(HasSubstr("means nothing")));
}

TEST(RunDirectory, ALockHeldForAMomentIsWaitedFor) {
  ScratchDirectory scratch;
  ASSERT_TRUE(RunDirectory::Open(scratch / "run").ok());
  UniqueFd other(::open((scratch / "run/lock").c_str(), O_RDWR));
  ASSERT_EQ(::flock(other.get(), LOCK_SH), 0);
  std::thread release([&] {
    ::usleep(50000);
    ::flock(other.get(), LOCK_UN);
  });
  EXPECT_TRUE(RunDirectory::Open(scratch / "run").ok());
  release.join();
}

TEST(RunDirectory, IsNotMadeWhereItIsOnlyLookedFor) {
  ScratchDirectory scratch;
  EXPECT_TRUE(absl::IsNotFound(RunDirectory::Open(scratch / "run", {.create = false}).status()));
  EXPECT_FALSE(std::filesystem::exists(scratch / "run"));
}

TEST(RunDirectory, ModesDoNotDependOnTheUmask) {
  ScratchDirectory scratch;
  for (const mode_t mask : {0, 022, 077}) {
    const mode_t before = ::umask(mask);
    const std::string name = scratch / absl::StrCat("run", mask);
    const auto directory = RunDirectory::Open(name);
    ASSERT_TRUE(directory.ok() && (*directory)->WriteOwner(ThisProcess()).ok());
    ::umask(before);
    EXPECT_EQ(Mode(name), 0700);
    EXPECT_EQ(Mode(name + "/lock"), 0600);
    EXPECT_EQ(Mode(name + "/owner"), 0600);
  }
}

// 64 processes below one parent, each with a directory of its own, again and again, while
// others glance at all of them: nobody is kept out, and nobody's file is touched.
TEST(RunDirectory, SixtyFourOwnersShareAParent) {
  ScratchDirectory scratch;
  std::vector<pid_t> owners;
  for (int i = 0; i < 64; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string path = scratch / absl::StrCat("run", i);
      int failures = 0;
      for (int round = 0; round < 5; ++round) {
        auto directory = RunDirectory::Open(path, {.output = path});
        if (!directory.ok()) ::_exit(1);
        if (std::filesystem::exists(path + "/tiles")) ::_exit(2);
        std::ofstream(path + "/tiles") << path;
        for (int other = 0; other < 64; ++other) {
          (void)GlanceAtRunDirectory(scratch / absl::StrCat("run", other));
        }
        std::string content;
        std::ifstream(path + "/tiles") >> content;
        failures += content != path;
        const std::vector<std::string> tiles = {"tiles"};
        failures += !RunDirectory::Remove(*std::move(directory), tiles).ok();
      }
      ::_exit(failures > 0 ? 3 : 0);
    }
    owners.push_back(child);
  }
  for (const pid_t owner : owners) {
    int status = 0;
    ::waitpid(owner, &status, 0);
    EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

// Processes that fight over one directory, which each removes when it had it.
TEST(RunDirectory, OneAtATimeWhereEveryOwnerRemovesTheDirectory) {
  ScratchDirectory scratch;
  std::vector<pid_t> owners;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      int had = 0;
      for (int round = 0; round < 40; ++round) {
        auto directory = RunDirectory::Open(scratch / "run");
        if (absl::IsFailedPrecondition(directory.status())) continue;
        if (!directory.ok()) ::_exit(2);
        const std::string path = scratch / "run/tiles";
        const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (fd < 0) ::_exit(3);  // somebody else is in it
        ::close(fd);
        ++had;
        if (!RunDirectory::Remove(*std::move(directory), {path.substr(path.rfind('/') + 1)}).ok()) {
          ::_exit(4);
        }
      }
      ::_exit(had > 0 ? 0 : 5);
    }
    owners.push_back(child);
  }
  for (const pid_t owner : owners) {
    int status = 0;
    ::waitpid(owner, &status, 0);
    EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  }
}

TEST(GlanceAtRunDirectory, TellsWhoUsesItAndWhatItHolds) {
  ScratchDirectory scratch;
  EXPECT_TRUE(absl::IsNotFound(GlanceAtRunDirectory(scratch / "run").status()));
  auto directory = RunDirectory::Open(scratch / "run", {.output = "/out"});
  ASSERT_TRUE(directory.ok());
  RunRecord owner = ThisProcess();
  owner.output = "/out";
  owner.run = "0123456789abcdef";
  ASSERT_TRUE((*directory)->WriteOwner(owner).ok());
  std::ofstream(scratch / "run/tiles") << std::string(10000, 'x');
  auto glance = GlanceAtRunDirectory(scratch / "run");
  ASSERT_TRUE(glance.ok()) << glance.status();
  EXPECT_TRUE(glance->in_use);
  ASSERT_TRUE(glance->holder && glance->owner);
  EXPECT_EQ(glance->holder->process, ::getpid());
  EXPECT_EQ(glance->owner->run, owner.run);
  EXPECT_GE(glance->allocated_bytes, 10000u);
  directory->reset();
  glance = GlanceAtRunDirectory(scratch / "run");
  ASSERT_TRUE(glance.ok());
  EXPECT_FALSE(glance->in_use);
  EXPECT_TRUE(glance->owner.has_value());
}

TEST(RunDirectory, HalfWrittenFilesOfAPredecessorAreRemoved) {
  ScratchDirectory scratch;
  std::filesystem::create_directory(scratch / "run");
  std::ofstream(scratch / "run/manifest.tmp-0123456789abcdef") << "half";
  std::ofstream(scratch / "run/manifest") << "whole";
  ASSERT_TRUE(RunDirectory::Open(scratch / "run").ok());
  EXPECT_FALSE(std::filesystem::exists(scratch / "run/manifest.tmp-0123456789abcdef"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "run/manifest"));
}

}  // namespace
}  // namespace spillway
