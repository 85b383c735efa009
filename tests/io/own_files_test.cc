#include "io/own_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/unique_fd.h"
#include "io/file_system.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

DirectoryEntry EntryAt(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
  return EntryOf(FileName(path), info);
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(OwnFiles, OnlyAFileOfItsOwnIsTaken) {
  ScratchDirectory folder;
  ASSERT_EQ(WriteFileAtomically(folder / "file", "abc"), absl::OkStatus());
  EXPECT_EQ(CheckOwnEntry(EntryAt(folder / "file"), "file"), absl::OkStatus());
  ASSERT_EQ(::link((folder / "file").c_str(), (folder / "other").c_str()), 0);
  EXPECT_THAT(Message(CheckOwnEntry(EntryAt(folder / "file"), "file")),
              AllOf(HasSubstr("file is a hard link"), HasSubstr("remove it")));
  UniqueFd fd(::open((folder / "file").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckOwnFile(fd.get(), "file")));
  EXPECT_EQ(CheckRegularFile(fd.get(), "file"), absl::OkStatus());  // it is only read
}

TEST(OwnFiles, WhatElseHasItsNameIsNamed) {
  ScratchDirectory folder;
  ASSERT_EQ(::mkdir((folder / "directory").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("directory", (folder / "link").c_str()), 0);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  ASSERT_EQ(::mknod((folder / "socket").c_str(), S_IFSOCK | 0600, 0), 0);
  const struct {
    std::string path;
    const char* kind;
  } cases[] = {{folder / "directory", "a directory"},
               {folder / "link", "a symbolic link"},
               {folder / "pipe", "a named pipe"},
               {folder / "socket", "a socket"},
               {"/dev/null", "a device"}};
  for (const auto& [path, kind] : cases) {
    const DirectoryEntry entry = EntryAt(path);
    const absl::Status status = CheckOwnEntry(entry, path);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << path;
    EXPECT_THAT(Message(status), AllOf(HasSubstr(path), HasSubstr(kind)));
    EXPECT_THAT(Message(RefuseOther(entry, path)), AllOf(HasSubstr(path), HasSubstr(kind)));
    if (entry.is_directory) continue;
    EXPECT_THAT(Message(CheckOwnSubdirectory(entry, path)),
                AllOf(HasSubstr(kind), HasSubstr("keeps a directory")));
  }
  EXPECT_EQ(CheckOwnSubdirectory(EntryAt(folder / "directory"), "d"), absl::OkStatus());
}

TEST(OwnFiles, WhatBelongsToAnotherUserIsRefused) {
  ScratchDirectory folder;
  DirectoryEntry entry = EntryAt(folder.path());
  entry.user = ::geteuid() + 1;
  const absl::Status status = CheckOwnSubdirectory(entry, "directory");
  EXPECT_TRUE(absl::IsPermissionDenied(status));
  EXPECT_THAT(Message(status), HasSubstr(std::to_string(entry.user)));
  entry.is_file = true;
  EXPECT_TRUE(absl::IsPermissionDenied(CheckOwnEntry(entry, "file")));
}

TEST(OwnFiles, AClosedDescriptorIsAnError) {
  for (auto* check : {&CheckOwnFile, &CheckRegularFile}) {
    EXPECT_THAT(Message(check(-1, "the/file")), HasSubstr("look at the/file"));
  }
}

}  // namespace
}  // namespace spillway
