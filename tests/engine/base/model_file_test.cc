#include "engine/base/model_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;
namespace fs = std::filesystem;

class ModelFileTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(scratch_ / "model/below");
    WriteFile(scratch_ / "secret", "a key");
    WriteFile(scratch_ / "model/real.json", "{\"a\": 1}");
  }
  void Link(const std::string& to, const std::string& name) {
    ASSERT_EQ(symlink(to.c_str(), (scratch_ / ("model/" + name)).c_str()), 0);
  }
  absl::StatusOr<std::string> Read(const std::string& name) {
    return ReadModelFile(scratch_ / "model", name);
  }

  const ScratchDirectory scratch_;
};

TEST_F(ModelFileTest, LinksInsideTheDirectoryAreFollowed) {
  Link("real.json", "link.json");
  Link("../real.json", "below/up.json");
  Link(scratch_ / "model/link.json", "absolute.json");
  fs::create_directory_symlink(scratch_ / "model", scratch_ / "other");
  for (const char* name : {"real.json", "link.json", "below/up.json", "absolute.json"}) {
    EXPECT_EQ(*Read(name), "{\"a\": 1}") << name;
    EXPECT_TRUE(ReadModelFile(scratch_ / "other", name).ok()) << name;
  }
  EXPECT_EQ(ReadModelJson(scratch_ / "model", "link.json")->value["a"], 1);
}

TEST_F(ModelFileTest, LinksOutOfTheDirectoryAreRefused) {
  Link("../secret", "config.json");
  Link(scratch_ / "secret", "tokenizer.json");
  fs::create_directory_symlink(scratch_.path(), scratch_ / "model/folder");
  fs::create_directories(scratch_ / "model-2");
  WriteFile(scratch_ / "model-2/x", "of a directory whose name begins alike");
  Link("../model-2/x", "x");
  Link("/proc/self/environ", "environ");
  for (const char* name : {"config.json", "tokenizer.json", "folder/secret", "x", "environ"}) {
    ExpectError(Read(name).status(), StatusCode::kInvalidArgument,
                {name, "leads out of the model's directory", "cp --dereference"});
  }
}

TEST_F(ModelFileTest, TheHubsCacheHasBlobsBesideItsSnapshots) {
  const std::string model = scratch_ / "hub/models--a--b";
  fs::create_directories(model + "/snapshots/c0ffee/below");
  fs::create_directories(model + "/blobs");
  WriteFile(model + "/blobs/1234", "{}");
  const auto link = [&](const std::string& to, const std::string& name) {
    ASSERT_EQ(symlink(to.c_str(), (model + "/snapshots/c0ffee/" + name).c_str()), 0);
  };
  link("../../blobs/1234", "config.json");
  link("../../../blobs/1234", "below/config.json");
  link("../../../../secret", "tokenizer.json");
  EXPECT_EQ(*ReadModelFile(model + "/snapshots/c0ffee", "config.json"), "{}");
  EXPECT_EQ(*ReadModelFile(model + "/snapshots/c0ffee", "below/config.json"), "{}");
  ExpectError(ReadModelFile(model + "/snapshots/c0ffee", "tokenizer.json").status(),
              StatusCode::kInvalidArgument, {"leads out"});
}

TEST_F(ModelFileTest, WhatIsNoPlainFileIsNotWaitedFor) {
  ASSERT_EQ(mkfifo((scratch_ / "model/config.json").c_str(), 0600), 0);
  Link("/dev/zero", "zero.json");
  Link("config.json", "pipe.json");
  for (const char* name : {"config.json", "zero.json", "below", "pipe.json"}) {
    ExpectError(Read(name).status(), StatusCode::kInvalidArgument, {name, "not a plain file"});
  }
  Link("nowhere", "gone.json");
  EXPECT_EQ(Read("gone.json").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Read("missing.json").status().code(), StatusCode::kNotFound);
}

TEST_F(ModelFileTest, SizesAreBoundedAndPointersNamed) {
  WriteFile(scratch_ / "model/large.json", std::string(5000, ' '));
  ExpectError(ReadModelFile(scratch_ / "model", "large.json", 4999).status(),
              StatusCode::kInvalidArgument, {"large.json has 5000 B", "at most"});
  for (const char* name : {"config.json", "tokenizer.json", "chat_template.jinja"}) {
    WriteFile(scratch_ / ("model/" + std::string(name)),
              "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
    ExpectError(Read(name).status(), StatusCode::kInvalidArgument, {name, "git lfs pull"});
  }
  ExpectError(ReadModelJson(scratch_ / "model", "config.json").status(),
              StatusCode::kInvalidArgument, {"git lfs pull"});
}

}  // namespace
}  // namespace spillway
