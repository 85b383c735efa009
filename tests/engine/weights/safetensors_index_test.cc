#include "engine/weights/safetensors_index.h"

#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

TEST(SafetensorsIndex, NamesTheFileOfEveryTensor) {
  const auto index = ParseSafetensorsIndex(
      R"({"metadata": {"total_size": 8}, "weight_map": {"b/~": "y", "a": "x", "c": "x"}})", "f");
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->shard_of,
            (std::map<std::string, std::string>{{"a", "x"}, {"b/~", "y"}, {"c", "x"}}));
  EXPECT_EQ(index->metadata, nlohmann::json({{"total_size", 8}}));
}

TEST(SafetensorsIndex, RefusesWhatIsNone) {
  for (const char* text : {"", "[]", "{", "{}", R"({"weight_map": []})", R"({"weight_map": {}})",
                           R"({"weight_map": {"a": "x", "a": "y"}})"}) {
    ExpectError(ParseSafetensorsIndex(text, "f.json").status(), absl::StatusCode::kDataLoss,
                {"f.json"});
  }
  ExpectError(ParseSafetensorsIndex("{\"weight_map\": {\n\"a\": 1}}", "f").status(),
              absl::StatusCode::kDataLoss, {"f:2", "'a'"});
}

TEST(SafetensorsIndex, NoNameLeadsOutOfTheDirectory) {
  for (const char* name : {"../x", "/x", "a/b", ".", "..", ".hidden", "", "a\\u0000b"}) {
    const std::string text = std::string(R"({"weight_map": {"a": ")") + name + "\"}}";
    ExpectError(ParseSafetensorsIndex(text, "f").status(), absl::StatusCode::kDataLoss,
                {"not a file's name"});
  }
}

}  // namespace
}  // namespace spillway
