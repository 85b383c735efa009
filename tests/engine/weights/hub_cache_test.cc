#include "engine/weights/hub_cache.h"

#include <filesystem>
#include <map>

#include "tests/engine/format_testing.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using absl::StatusCode;

constexpr char kCommit[] = "607a30d783dfa663caf39e06633721c8d4cfcd7e";

std::string CacheBy(const std::map<std::string, std::string>& variables) {
  return HubCacheDirectory([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST(HubCache, IsWhereHuggingfaceHubHasIt) {
  EXPECT_EQ(CacheBy({{"HOME", "/h"}}), "/h/.cache/huggingface/hub");
  EXPECT_EQ(CacheBy({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}), "/x/huggingface/hub");
  EXPECT_EQ(CacheBy({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "~/f"}}), "/h/f/hub");
  EXPECT_EQ(CacheBy({{"HF_HOME", "/f"}, {"HUGGINGFACE_HUB_CACHE", "/old"}}), "/old");
  EXPECT_EQ(CacheBy({{"HUGGINGFACE_HUB_CACHE", "/old"}, {"HF_HUB_CACHE", "/new"}}), "/new");
}

TEST(HubName, IsAnOwnerAndANameWithARevision) {
  EXPECT_EQ(ParseHubName("openai-community/gpt2")->repository, "openai-community/gpt2");
  EXPECT_EQ(ParseHubName("a/b.c_d@v1.0")->revision, "v1.0");
  EXPECT_EQ(ParseHubName("a/b@refs/pr/1")->revision, "refs/pr/1");
  EXPECT_EQ(ParseHubName("gpt2")->repository, "gpt2");
  for (const char* none : {"", "model", "./a/b", "/a/b", "a/b/c", "a/", "a b/c", "a/b@", "a/b@../x",
                           "a/.b", "a--b/c", "~/x"}) {
    EXPECT_FALSE(ParseHubName(none).has_value()) << none;
  }
}

class HubCacheTest : public testing::Test {
 protected:
  HubCacheTest() { std::filesystem::create_directories(Snapshot(kCommit)); }

  std::string Folder() const { return scratch_ / "models--org--name"; }
  std::string Snapshot(const std::string& commit) const {
    return Folder() + "/snapshots/" + commit;
  }
  void Put(const std::string& name, const std::string& text = "{}") const {
    const std::string path = Folder() + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    WriteFile(path, text);
  }
  void PutFile(const std::string& name, const std::string& text = "{}") const {
    Put(std::string("snapshots/") + kCommit + "/" + name, text);
  }
  absl::StatusOr<HubSnapshot> Find(const std::string& name,
                                   HubFiles files = HubFiles::kConfig) const {
    return FindInHubCache(*ParseHubName(name), scratch_.path(), files);
  }

  ScratchDirectory scratch_;
};

TEST_F(HubCacheTest, ARevisionIsABranchOrACommit) {
  PutFile("config.json");
  Put("refs/main", std::string(kCommit) + "\n");
  Put("refs/pr/1", kCommit);
  for (const char* name : {"org/name", "org/name@main", "org/name@pr/1", "org/name@607a30d",
                           "org/name@607a30d783dfa663caf39e06633721c8d4cfcd7e"}) {
    const auto found = Find(name);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->directory, Snapshot(kCommit));
    EXPECT_EQ(found->commit, kCommit);
  }
  ExpectError(Find("org/name@v2").status(), StatusCode::kNotFound,
              {"no snapshot of v2", "main", "607a30d7"});
  ExpectError(Find("org/other").status(), StatusCode::kNotFound, {"it is not in"});
  Put("refs/main", "../../..");
  ExpectError(Find("org/name").status(), StatusCode::kNotFound, {"no snapshot of main"});
}

TEST_F(HubCacheTest, ASnapshotThatIsNotWholeIsNamedWithWhatItLacks) {
  Put("refs/main", kCommit);
  const auto lacks = [&](HubFiles files, const std::string& what) {
    ExpectError(Find("org/name", files).status(), StatusCode::kFailedPrecondition,
                {"is not whole", "it lacks " + what});
  };
  lacks(HubFiles::kConfig, "config.json, and has nothing");
  lacks(HubFiles::kTokenizer, "tokenizer.json");
  lacks(HubFiles::kAdapter, "adapter_config.json");
  PutFile("config.json");
  EXPECT_TRUE(Find("org/name").ok());
  lacks(HubFiles::kWeights, "model.safetensors (its weights), and has config.json");
  // As a download that is cut leaves it: a link to a blob that is not there.
  std::filesystem::create_symlink("../../blobs/abc", Snapshot(kCommit) + "/model.safetensors");
  lacks(HubFiles::kWeights, "model.safetensors (its weights)");
  PutFile("model.safetensors.index.json",
          R"({"weight_map": {"a": "m-1-of-2.safetensors", "b": "m-2-of-2.safetensors"}})");
  PutFile("m-1-of-2.safetensors");
  lacks(HubFiles::kWeights, "1 files of weights, such as m-2-of-2.safetensors");
  PutFile("m-2-of-2.safetensors");
  EXPECT_TRUE(Find("org/name", HubFiles::kWeights).ok());
}

TEST_F(HubCacheTest, WeightsOfOtherFormatsAreForTheirReader) {
  Put("refs/main", kCommit);
  PutFile("config.json");
  PutFile("pytorch_model.bin");
  EXPECT_TRUE(Find("org/name", HubFiles::kWeights).ok());
}

TEST_F(HubCacheTest, ARepositorysFolderIsItsMainSnapshot) {
  PutFile("config.json");
  Put("refs/main", kCommit);
  const auto found = FindInRepositoryFolder(Folder() + "/", HubFiles::kConfig);
  ASSERT_TRUE(found.has_value());
  ASSERT_TRUE(found->ok()) << found->status();
  EXPECT_EQ((*found)->directory, Snapshot(kCommit));
  EXPECT_FALSE(FindInRepositoryFolder(scratch_.path(), HubFiles::kConfig).has_value());
  std::filesystem::remove(Folder() + "/refs/main");
  const auto without = FindInRepositoryFolder(Folder(), HubFiles::kConfig);
  ExpectError(without->status(), StatusCode::kNotFound, {"no snapshot of main", "607a30d7"});
}

}  // namespace
}  // namespace spillway
