#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/run/run_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file.h"
#include "io/own_directory.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

// What somebody could plant under a name of ours, each refused with what it is.
TEST(OwnFiles, WhatWasPlantedIsRefusedAndLeftAlone) {
  const struct {
    const char* what;
    std::function<bool(const std::string& path, const std::string& precious)> plant;
  } kinds[] = {
      {"a symbolic link",
       [](auto& path, auto& precious) { return ::symlink(precious.c_str(), path.c_str()) == 0; }},
      {"a hard link",
       [](auto& path, auto& precious) { return ::link(precious.c_str(), path.c_str()) == 0; }},
      {"a named pipe", [](auto& path, auto&) { return ::mkfifo(path.c_str(), 0600) == 0; }},
      {"a directory", [](auto& path, auto&) { return ::mkdir(path.c_str(), 0700) == 0; }},
      {"a device",
       [](auto& path, auto&) { return ::mknod(path.c_str(), S_IFCHR | 0600, 0x103) == 0; }},
      {"belongs to user 65534",
       [](auto& path, auto&) {
         std::ofstream(path) << "foreign";
         return ::chown(path.c_str(), kNobody, kNobody) == 0;
       }},
  };
  for (const auto& kind : kinds) {
    SCOPED_TRACE(kind.what);
    ScratchDirectory scratch;
    std::ofstream(scratch / "precious") << "content";
    for (const std::string name : {"lock", "tiles"}) {
      const std::string run = scratch / ("run-" + name);
      std::filesystem::create_directory(run);
      if (!kind.plant(run + "/" + name, scratch / "precious")) {
        GTEST_SKIP() << "needs root, to plant " << kind.what;
      }
      const auto directory = RunDirectory::Open(run);
      if (name == "lock") {
        EXPECT_FALSE(directory.ok());
      } else {
        ASSERT_TRUE(directory.ok()) << directory.status();
        const absl::Status status = (*directory)->CheckEntries({"tiles"}, {}, OtherNames::kRefused);
        EXPECT_THAT(std::string(status.message()), HasSubstr(run + "/tiles"));
        EXPECT_THAT(std::string(status.message()), HasSubstr(kind.what));
        EXPECT_FALSE(File::Open(run + "/tiles", {.write = true}).ok());
        EXPECT_FALSE((*directory)->own().RemoveFiles({"tiles"}).ok());
      }
      struct stat info;
      EXPECT_EQ(::lstat((run + "/" + name).c_str(), &info), 0) << "it was removed";
    }
    std::string content;
    std::ifstream(scratch / "precious") >> content;
    EXPECT_EQ(content, "content");
  }
}

TEST(OwnFiles, ANameThatNoRunUsesIsRefusedWhereNoneIsExpected) {
  ScratchDirectory scratch;
  const auto directory = RunDirectory::Open(scratch / "run");
  ASSERT_TRUE(directory.ok());
  std::ofstream(scratch / "run/tiles") << "x";
  EXPECT_TRUE((*directory)->CheckEntries({"tiles"}, {}, OtherNames::kRefused).ok());
  std::ofstream(scratch / "run/notes.txt") << "x";
  EXPECT_TRUE((*directory)->CheckEntries({"tiles"}, {}, OtherNames::kIgnored).ok());
  const absl::Status status = (*directory)->CheckEntries({"tiles"}, {}, OtherNames::kRefused);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("notes.txt"));
}

TEST(OwnFiles, RemoveTakesItsOwnFilesAndStopsAtOthers) {
  ScratchDirectory scratch;
  const std::vector<std::string> tiles = {"tiles"};
  {
    auto directory = RunDirectory::Open(scratch / "run");
    ASSERT_TRUE(directory.ok());
    std::ofstream(scratch / "run/tiles") << std::string(10000, 'x');
    ASSERT_TRUE((*directory)->WriteOwner(ThisProcess()).ok());
    const auto removed = RunDirectory::Remove(*std::move(directory), tiles);
    ASSERT_TRUE(removed.ok()) << removed.status();
    EXPECT_GE(*removed, 10000u);
    EXPECT_FALSE(std::filesystem::exists(scratch / "run"));
  }
  auto directory = RunDirectory::Open(scratch / "run");
  ASSERT_TRUE(directory.ok());
  std::ofstream(scratch / "run/tiles") << "x";
  std::ofstream(scratch / "run/notes.txt") << "x";
  ASSERT_TRUE(RunDirectory::Remove(*std::move(directory), tiles).ok());
  EXPECT_FALSE(std::filesystem::exists(scratch / "run/tiles"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "run/notes.txt"));
}

}  // namespace
}  // namespace spillway
