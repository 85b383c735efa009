#include "engine/run/copy_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kName[] = "step-000000000003";

class CopyFolder : public testing::Test {
 protected:
  CopyFolder() {
    Write(elsewhere_ / "precious", "content");
    Fill();
  }

  static void Write(const std::string& path, const std::string& content) {
    std::ofstream(path) << content;
  }

  // A whole copy.
  void Fill() {
    fs::create_directories(folder_ + "/source");
    fs::create_directories(folder_ + "/ranks/1");
    for (const char* name :
         {"tiles", "manifest-rank0", "source/config.json", "source/merges.txt",
          "source/vocabulary of mine", "ranks/1/tiles", "ranks/1/manifest-rank1"}) {
      Write(folder_ + "/" + name, "ours");
    }
  }

  absl::Status Check() { return CheckCopyFolder(*own_, kName); }
  absl::Status Remove() { return RemoveCopyFolder(*own_, kName); }

  void ExpectPreciousStays() {
    std::string content;
    std::ifstream(elsewhere_ / "precious") >> content;
    EXPECT_EQ(content, "content");
  }

  ScratchDirectory parent_, elsewhere_;
  const std::string folder_ = parent_ / kName;
  const std::unique_ptr<OwnDirectory> own_ =
      *OpenOwnDirectory(parent_.path(), DirectoryUse::kForOurs);
};

TEST_F(CopyFolder, IsRemovedWhole) {
  ASSERT_EQ(Check(), absl::OkStatus());
  ASSERT_EQ(Remove(), absl::OkStatus());
  EXPECT_TRUE(fs::is_empty(parent_.path()));
  EXPECT_EQ(Check(), absl::OkStatus()) << "none is fine";
  EXPECT_EQ(Remove(), absl::OkStatus());
}

TEST_F(CopyFolder, HalfOfOneIsRemovedToo) {
  fs::remove_all(folder_ + "/source");
  fs::remove(folder_ + "/manifest-rank0");
  ASSERT_EQ(Remove(), absl::OkStatus());
  EXPECT_TRUE(fs::is_empty(parent_.path()));
}

TEST_F(CopyFolder, AFileThatNoRunPutAmongTheRanksPartsIsRefused) {
  for (const char* name : {"ranks/notes", "ranks/1/notes", "ranks/1/manifest-rank0"}) {
    const std::string path = folder_ + "/" + name;
    Write(path, "mine");
    for (const absl::Status& status : {Check(), Remove()}) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    }
    EXPECT_TRUE(fs::exists(folder_ + "/manifest-rank0"));
    fs::remove(path);
  }
  EXPECT_EQ(Remove(), absl::OkStatus());
}

// Each kind under each name, and under one that no copy has.
TEST_F(CopyFolder, WhatWasPlantedIsRefusedAndNothingRemoved) {
  const std::string precious = elsewhere_ / "precious";
  const struct {
    const char* what;
    std::function<bool(const char* path)> plant;
  } kinds[] = {
      {"a symbolic link", [&](auto path) { return ::symlink(precious.c_str(), path) == 0; }},
      {"a hard link", [&](auto path) { return ::link(precious.c_str(), path) == 0; }},
      {"a named pipe", [](auto path) { return ::mkfifo(path, 0600) == 0; }},
      {"a directory", [](auto path) { return ::mkdir(path, 0700) == 0; }},
      {"belongs to user 65534",
       [](auto path) {
         Write(path, "foreign");
         return ::chown(path, kNobody, kNobody) == 0;
       }},
  };
  for (const auto& kind : kinds) {
    if (::geteuid() != 0 && std::string(kind.what).find("user") != std::string::npos) continue;
    for (const std::string name : {"tiles", "manifest-rank0", "source/config.json",
                                   "source/planted", "ranks/1/tiles", "ranks/1/manifest-rank1"}) {
      SCOPED_TRACE(std::string(kind.what) + " at " + name);
      const std::string path = folder_ + "/" + name;
      fs::remove(path);
      ASSERT_TRUE(kind.plant(path.c_str()));
      for (const absl::Status& status : {Check(), Remove()}) {
        EXPECT_FALSE(status.ok());
        EXPECT_THAT(std::string(status.message()), HasSubstr(path));
        EXPECT_THAT(std::string(status.message()), HasSubstr(kind.what));
      }
      // All the rest is still there.
      EXPECT_TRUE(fs::exists(folder_ + "/source/merges.txt"));
      EXPECT_TRUE(name == "manifest-rank0" || fs::exists(folder_ + "/manifest-rank0"));
      struct stat info;
      EXPECT_EQ(::lstat(path.c_str(), &info), 0) << "it was removed";
      fs::remove_all(path);
      Fill();
    }
  }
  ExpectPreciousStays();
}

TEST_F(CopyFolder, ANameThatNoCopyHasIsRefused) {
  Write(folder_ + "/notes.txt", "mine");
  EXPECT_THAT(std::string(Remove().message()), HasSubstr("notes.txt"));
  EXPECT_TRUE(fs::exists(folder_ + "/manifest-rank0"));
}

TEST_F(CopyFolder, AFolderThatIsALinkIsRefused) {
  for (const std::string& name : {std::string(kName), std::string(kName) + "/source"}) {
    const std::string path = parent_ / name;
    fs::remove_all(path);
    Write(elsewhere_ / "tiles", "precious");
    Write(elsewhere_ / "manifest-rank0", "precious");
    fs::create_directory_symlink(elsewhere_.path(), path);
    for (const absl::Status& status : {Check(), Remove()}) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(path + " is a symbolic link"));
    }
    EXPECT_TRUE(fs::exists(elsewhere_ / "tiles"));
    EXPECT_TRUE(fs::exists(elsewhere_ / "manifest-rank0"));
    fs::remove(path);
    Fill();
  }
  ExpectPreciousStays();
}

}  // namespace
}  // namespace spillway
