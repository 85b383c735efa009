#include "io/run_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kNobody = 65534;

mode_t Mode(const std::string& path) {
  struct stat info = {};
  ::stat(path.c_str(), &info);
  return info.st_mode & 07777;
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
