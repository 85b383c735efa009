#include "io/file_system.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/forwarding_file_system.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Forwards to the machine's own, says what it was asked, and fails where told to.
class Recorder final : public ForwardingFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<NewFile>> Create(absl::string_view path,
                                                  FileAccess access) override {
    if (absl::Status status = Say("create"); !status.ok()) return status;
    auto file = FileSystem::Real().Create(path, access);
    if (!file.ok()) return file.status();
    return std::make_unique<RecordedFile>(*this, *std::move(file));
  }
  absl::Status Rename(absl::string_view from, absl::string_view to) override {
    if (absl::Status status = Say("rename"); !status.ok()) return status;
    return FileSystem::Real().Rename(from, to);
  }
  absl::Status Remove(absl::string_view path) override {
    if (absl::Status status = Say("remove"); !status.ok()) return status;
    return FileSystem::Real().Remove(path);
  }
  absl::Status SyncDirectory(absl::string_view path) override {
    if (absl::Status status = Say("sync directory"); !status.ok()) return status;
    return FileSystem::Real().SyncDirectory(path);
  }
  absl::StatusOr<uint64_t> RandomNumber() override { return 0x123; }

  absl::Status Say(const std::string& what) {
    said.push_back(what);
    return what == fail ? absl::UnavailableError(what) : absl::OkStatus();
  }

  std::vector<std::string> said;
  std::string fail;

 private:
  class RecordedFile final : public NewFile {
   public:
    RecordedFile(Recorder& recorder, std::unique_ptr<NewFile> file)
        : recorder_(recorder), file_(std::move(file)) {}
    absl::Status Append(absl::string_view content) override {
      if (absl::Status status = recorder_.Say("append"); !status.ok()) return status;
      return file_->Append(content);
    }
    absl::Status Sync() override {
      if (absl::Status status = recorder_.Say("sync"); !status.ok()) return status;
      return file_->Sync();
    }
    absl::Status Close() override {
      if (absl::Status status = recorder_.Say("close"); !status.ok()) return status;
      return file_->Close();
    }

   private:
    Recorder& recorder_;
    const std::unique_ptr<NewFile> file_;
  };
};

TEST(FileSystem, AnAtomicWriteIsDurableStepByStep) {
  ScratchDirectory folder;
  Recorder files;
  ASSERT_TRUE(WriteFileAtomically(files, folder / "a", "one").ok());
  EXPECT_THAT(files.said,
              ElementsAre("create", "append", "sync", "close", "rename", "sync directory"));
  EXPECT_EQ(*ReadSmallFile(folder / "a"), "one");
}

TEST(FileSystem, AnAtomicWriteThatFailsLeavesTheOldFileAndNoOther) {
  ScratchDirectory folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "a", "one").ok());
  for (const char* step : {"create", "append", "sync", "close", "rename"}) {
    SCOPED_TRACE(step);
    Recorder files;
    files.fail = step;
    EXPECT_EQ(WriteFileAtomically(files, folder / "a", "two").message(), step);
    EXPECT_EQ(*ReadSmallFile(folder / "a"), "one");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  }
  Recorder files;
  files.fail = "sync directory";  // the new one is there, and may be gone after a power loss
  EXPECT_FALSE(WriteFileAtomically(files, folder / "a", "two").ok());
  EXPECT_EQ(*ReadSmallFile(folder / "a"), "two");
}

TEST(FileSystem, WhatAUserNamesIsWrittenBehindHisLinksAndReplacesNothingButFiles) {
  ScratchDirectory folder;
  FileSystem& files = FileSystem::Real();
  const std::string real = std::filesystem::canonical(folder.path()).string();
  const std::string target = real + "/target", link = folder / "link";
  EXPECT_EQ(*ResolveForWriting(files, folder / "./target"), target) << "which is not there yet";
  ASSERT_EQ(WriteFileAtomically(target, "abc"), absl::OkStatus());
  std::filesystem::create_symlink("target", link);
  EXPECT_EQ(*ResolveForWriting(files, link), target);

  const std::string pipe = folder / "pipe", to_pipe = folder / "to_pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink(pipe, to_pipe);
  const std::string to_nothing = folder / "to_nothing";
  std::filesystem::create_symlink("nothing", to_nothing);
  for (const std::string& path :
       {pipe, to_pipe, to_nothing, folder.path(), std::string("/dev/full")}) {
    const absl::Status status = ResolveForWriting(files, path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
}

TEST(FileSystem, OthersMayUseWhatTheUmaskAndThePurposeAllow) {
  FileSystem& files = FileSystem::Real();
  using enum FileAccess;
  const struct {
    mode_t umask;
    FileAccess access;
    mode_t file, directory;
  } cases[] = {{022, kPrivate, 0600, 0700},  {0, kPrivate, 0600, 0700},
               {022, kReadable, 0644, 0755}, {002, kReadable, 0644, 0755},
               {077, kReadable, 0600, 0700}, {022, kShared, 0644, 0755},
               {002, kShared, 0664, 0775},   {077, kShared, 0600, 0700}};
  for (const auto& one : cases) {
    SCOPED_TRACE(testing::Message() << std::oct << one.umask << " " << one.directory);
    ScratchDirectory folder;
    const mode_t before = ::umask(one.umask);
    EXPECT_TRUE(files.CreateDirectory(folder / "d", one.access).ok());
    EXPECT_TRUE(CreateDirectories(files, folder / "e/f", one.access).ok());
    EXPECT_TRUE(files.Create(folder / "a", one.access).ok());
    EXPECT_TRUE(WriteFileAtomically(files, folder / "b", "text", one.access).ok());
    EXPECT_TRUE(OpenInPlace(files, folder / "c", one.access).ok());
    ::umask(before);
    const auto mode = [&](const char* name) {
      struct stat info = {};
      EXPECT_EQ(::stat((folder / name).c_str(), &info), 0) << name;
      return info.st_mode & 07777;
    };
    for (const char* name : {"a", "b", "c"}) EXPECT_EQ(mode(name), one.file) << name;
    for (const char* name : {"d", "e", "e/f"}) EXPECT_EQ(mode(name), one.directory) << name;
  }
}

TEST(FileSystem, ANewFileIsPrivateAndMustNotExist) {
  ScratchDirectory folder;
  const std::string path = folder / "new";
  FileSystem& files = FileSystem::Real();
  auto file = files.Create(path, FileAccess::kPrivate);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("ab").ok());
  ASSERT_TRUE((*file)->Append("c").ok());
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(*files.ReadSmallFile(path), "abc");
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
  const absl::Status again = files.Create(path, FileAccess::kPrivate).status();
  EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
  EXPECT_THAT(std::string(again.message()), HasSubstr(path));
  ASSERT_TRUE(files.Remove(path).ok());
  EXPECT_TRUE(absl::IsNotFound(files.Remove(path)));
  EXPECT_TRUE(absl::IsNotFound(files.Rename(path, path + "2")));
}

TEST(FileSystem, ErrorsNameTheirPath) {
  ScratchDirectory folder;
  FileSystem& files = FileSystem::Real();
  ASSERT_EQ(WriteFileAtomically(folder / "file", "abc"), absl::OkStatus());
  const std::string below = folder / "file/x", missing = folder / "none/x";
  const auto expect = [](const absl::Status& status, absl::string_view path) {
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(path)));
  };
  expect(files.Create(missing, FileAccess::kPrivate).status(), missing);
  expect(files.Create(below, FileAccess::kPrivate).status(), below);
  expect(files.CreateDirectory(missing, FileAccess::kPrivate), missing);
  expect(files.RemoveDirectory(folder / "file"), folder / "file");
  expect(files.Remove(folder.path()), folder.path());
  expect(files.List(folder / "file").status(), folder / "file");
  expect(files.SyncDirectory(folder / "none"), folder / "none");
  expect(files.FreeBytes(missing).status(), missing);
  // Nothing can be below a file, so there is nothing.
  EXPECT_TRUE(absl::IsNotFound(files.Stat(below).status()));
  expect(CreateDirectories(files, below, FileAccess::kPrivate), "file");
  expect(WriteFileAtomically(missing, "abc"), missing);
  expect(RemoveAtomicWriteLeftovers(files, folder / "none"), folder / "none");
  EXPECT_EQ(RemoveIfThere(files, missing), absl::OkStatus());
  expect(RemoveIfThere(files, folder.path()), folder.path());
  EXPECT_FALSE(files.MayWriteIn(folder / "none"));
  EXPECT_TRUE(files.MayWriteIn(folder.path()));
}

TEST(FileSystem, WhatWasHalfWrittenIsRemovedAndNothingElse) {
  ScratchDirectory folder;
  FileSystem& files = FileSystem::Real();
  for (const char* name : {"a", "a.tmp-0123456789abcdef", "b.tmp-x"}) {
    ASSERT_EQ(WriteFileAtomically(folder / name, "abc"), absl::OkStatus());
  }
  ASSERT_EQ(RemoveAtomicWriteLeftovers(files, folder.path()), absl::OkStatus());
  EXPECT_THAT(*files.List(folder.path()), ElementsAre("a", "b.tmp-x"));
}

TEST(FileSystem, AFileInPlaceIsMadeOnceAndKeptThen) {
  ScratchDirectory folder;
  FileSystem& files = FileSystem::Real();
  ASSERT_TRUE(OpenInPlace(files, folder / "f", FileAccess::kPrivate).ok());
  ASSERT_EQ(WriteFileAtomically(folder / "f", "abc"), absl::OkStatus());
  ASSERT_TRUE(OpenInPlace(files, folder / "f", FileAccess::kPrivate).ok());
  EXPECT_EQ(*ReadSmallFile(folder / "f"), "abc");
  EXPECT_FALSE(OpenInPlace(files, folder.path(), FileAccess::kPrivate).ok());
  EXPECT_NE(*files.RandomNumber(), *files.RandomNumber());
}

TEST(FileSystem, DirectoriesAreListedLookedAtAndRemovedWhenEmpty) {
  ScratchDirectory folder;
  FileSystem& files = FileSystem::Real();
  const std::string deep = folder / "a/b/c";
  std::vector<std::string> created;
  ASSERT_EQ(CreateDirectories(files, deep, FileAccess::kPrivate, &created), absl::OkStatus());
  EXPECT_THAT(created, ElementsAre(deep, folder / "a/b", folder / "a"));
  EXPECT_TRUE(absl::IsAlreadyExists(files.CreateDirectory(deep, FileAccess::kPrivate)));
  ASSERT_EQ(WriteFileAtomically(files, deep + "/x", "abc"), absl::OkStatus());
  ASSERT_EQ(::symlink("x", (deep + "/link").c_str()), 0);
  EXPECT_THAT(*files.List(deep), ElementsAre("link", "x"));
  EXPECT_EQ(files.Stat(deep)->kind, FileInfo::Kind::kDirectory);
  EXPECT_EQ(files.Stat(deep + "/x")->size_bytes, 3u);
  EXPECT_EQ(files.Stat(deep + "/link")->kind, FileInfo::Kind::kOther);
  EXPECT_EQ(files.Stat(deep + "/link", SymbolicLink::kFollow)->identity,
            files.Stat(deep + "/x")->identity);
  EXPECT_TRUE(absl::IsNotFound(files.Stat(deep + "/y").status()));
  EXPECT_FALSE(files.RemoveDirectory(deep).ok());
  ASSERT_EQ(files.Remove(deep + "/x"), absl::OkStatus());
  ASSERT_EQ(files.Remove(deep + "/link"), absl::OkStatus());
  ASSERT_EQ(files.RemoveDirectory(deep), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(files.RemoveDirectory(deep)));
  EXPECT_TRUE(absl::IsNotFound(files.List(deep).status()));
  EXPECT_EQ(files.Resolve(folder / "a/./b/../b/c"), files.Resolve(folder / "a/b") + "/c");
}

TEST(FileSystem, WhatIsThereIsToldThroughLinks) {
  ScratchDirectory folder;
  const std::string file = folder / "file", link = folder / "same/link", pipe = folder / "pipe";
  ASSERT_EQ(WriteFileAtomically(file, "abc"), absl::OkStatus());
  std::filesystem::create_symlink("file", folder / "link");
  std::filesystem::create_symlink(".", folder / "same");
  std::filesystem::create_symlink("nothing", folder / "to_nothing");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(Exists(link) && Exists(pipe) && Exists(folder / "same"));
  EXPECT_TRUE(IsDirectory(folder / "same") && !IsDirectory(link));
  EXPECT_TRUE(SameFile(file, link) && SameFile(folder.path(), folder / "same/"));
  EXPECT_FALSE(SameFile(file, pipe) || SameFile(pipe, pipe)) << "a pipe is neither";
  for (const std::string& path : {folder / "none", folder / "to_nothing", file + "/x"}) {
    EXPECT_FALSE(Exists(path) || IsDirectory(path) || SameFile(path, path)) << path;
  }
  EXPECT_EQ(*CanonicalPath(link, "open"), FileSystem::Real().Resolve(folder.path()) + "/file");
  EXPECT_THAT(std::string(CanonicalPath(folder / "none", "--swap x").status().message()),
              StartsWith("--swap x: No such file"));
}

TEST(FileSystem, PathsAreTakenApartByTheirLetters) {
  constexpr const char* kPaths[][3] = {{"/a", "/", "/a"},       {"/", "/", "/"},
                                       {"a", ".", "a"},         {"/a/b/", "/a/b", "/a/b"},
                                       {"/a//b", "/a", "/a/b"}, {"//a", "/", "/a"},
                                       {"", ".", ""},           {"./a/../b", "./a/..", "b"},
                                       {"a/..", "a", "."},      {"../a/.", "../a", "../a"}};
  for (const auto& [path, parent, normal] : kPaths) {
    EXPECT_EQ(ParentPath(path), parent) << path;
    EXPECT_EQ(NormalPath(path), normal) << path;
  }
  EXPECT_EQ(RelativePath("/a/b/c", "/a"), "b/c");
  EXPECT_EQ(RelativePath("/ab/c", "/a"), "../ab/c");
  EXPECT_EQ(*AbsolutePath("./a/../b/"), std::filesystem::current_path().string() + "/./a/../b/");
  EXPECT_EQ(*AbsolutePath("/a//b"), "/a//b");
}

TEST(FileSystem, WhatIsTheUsersIsMadeAsTheUmaskAllows) {
  ScratchDirectory folder;
  const mode_t before = ::umask(0027);
  EXPECT_EQ(CreateSharedDirectories(folder / "a/b"), 0);
  ::umask(before);
  for (const char* name : {"a", "a/b"}) {
    EXPECT_EQ(std::filesystem::status(folder / name).permissions(), std::filesystem::perms{0750});
  }
  EXPECT_EQ(CreateSharedDirectories(folder / "a/b"), 0) << "which is there";
  EXPECT_EQ(CreateSharedDirectories("/dev/null/a"), ENOTDIR);
  EXPECT_EQ(
      InChild([&] { return ::setenv("TMPDIR", folder.path().c_str(), 1), TemporaryDirectory(); }),
      folder.path());
}

TEST(FileSystem, ANamelessFileIsMetByNobody) {
  ScratchDirectory folder;
  const auto fd = CreateNamelessFile(folder.path(), "a file");
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_EQ(WriteAll(fd->get(), "abc", 3), 0);
  EXPECT_THAT(*FileSystem::Real().List(folder.path()), ElementsAre());
  EXPECT_THAT(std::string(CreateNamelessFile(folder / "none", "a token file").status().message()),
              StartsWith("create a token file in " + (folder / "none") + ": No such file"));
}

// A parent that a killed process had just made may not be on the disk yet.
TEST(FileSystem, EveryLevelOfADirectoryIsSyncedAndTheLastOneEvenWhereItExists) {
  ScratchDirectory folder;
  const std::string deep = folder / "a/b";
  Recorder files;
  ASSERT_EQ(CreateDirectories(files, deep, FileAccess::kPrivate), absl::OkStatus());
  EXPECT_EQ(std::count(files.said.begin(), files.said.end(), "sync directory"), 3);
  files.said.clear();
  ASSERT_EQ(CreateDirectories(files, deep, FileAccess::kPrivate), absl::OkStatus());
  EXPECT_THAT(files.said, ElementsAre("sync directory"));
}

TEST(FileSystem, AFileAtRestIsReadAndWrittenWhole) {
  ScratchDirectory folder;
  const std::string path = folder / "blocks";
  auto file = FileSystem::Real().Open(path, {.write = true, .create = true});
  ASSERT_TRUE(file.ok()) << file.status();
  constexpr uint64_t kBytes = 3 * 4096;
  AlignedMemory out(kBytes), in(kBytes);
  FillRandom(out.data(), kBytes, 1);
  ASSERT_TRUE((*file)->WriteAt(4096, out.data(), kBytes).ok());
  ASSERT_TRUE((*file)->ReadAt(4096, in.data(), kBytes).ok());
  EXPECT_EQ(std::string(in.data(), kBytes), std::string(out.data(), kBytes));
  const absl::Status end = (*file)->ReadAt(8192, in.data(), kBytes);
  EXPECT_FALSE(end.ok());
  EXPECT_THAT(std::string(end.message()), HasSubstr(path));
}

}  // namespace
}  // namespace spillway
