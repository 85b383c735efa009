#include "engine/weights/safetensors_index.h"

#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

TEST(SafetensorsIndex, NamesTheFileOfEveryTensor) {
  const auto shards = ParseSafetensorsIndex(
      R"({"metadata": {"total_size": 8}, "weight_map": {"b/~": "y", "a": "x", "c": "x"}})", "f");
  ASSERT_TRUE(shards.ok()) << shards.status();
  EXPECT_EQ(*shards, (ShardOfTensor{{"a", "x"}, {"b/~", "y"}, {"c", "x"}}));
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
