#include "engine/data/tokenizer_json.h"

#include <functional>

#include "tests/engine/data/bpe_testing.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;
using nlohmann::json;

absl::Status StatusOf(const std::function<void(json&)>& edit) {
  json value = SmallTokenizerJson({{"a", "b"}});
  edit(value);
  return ParseTokenizerJson(value.dump(), "t/tokenizer.json").status();
}

TEST(TokenizerJson, TakesBothFormsOfMerges) {
  json value = SmallTokenizerJson({{"a", "b"}, {"ab", "c"}});
  const auto pairs = ParseTokenizerJson(value.dump(), "f");
  value["model"]["merges"] = {"#version: 0.2", "a b", "ab c"};
  const auto strings = ParseTokenizerJson(value.dump(), "f");
  ASSERT_TRUE(pairs.ok() && strings.ok()) << strings.status();
  ASSERT_EQ(pairs->merges.size(), 2u);
  EXPECT_EQ(pairs->merges[1].left, 256u);
  EXPECT_EQ(pairs->merges[1].right, uint32_t{'c'});
  EXPECT_EQ(pairs->merges[1].merged, 257u);
  EXPECT_EQ(strings->merges[1].merged, 257u);
}

TEST(TokenizerJson, WhatIsNotSupportedIsNamedWithARemedy) {
  const struct {
    std::function<void(json&)> edit;
    const char* named;
  } cases[] = {
      {[](json& t) { t["model"]["type"] = "Unigram"; }, "model Unigram"},
      {[](json& t) { t["model"]["type"] = "WordPiece"; }, "model WordPiece"},
      {[](json& t) { t["model"]["byte_fallback"] = true; }, "byte_fallback"},
      {[](json& t) { t["model"]["dropout"] = 0.1; }, "dropout"},
      {[](json& t) { t["model"]["continuing_subword_prefix"] = "##"; }, "continuing_subword"},
      {[](json& t) { t["model"]["end_of_word_suffix"] = "</w>"; }, "end_of_word_suffix"},
      {[](json& t) {
         t["model"]["vocab"].erase("z");
         t["model"]["unk_token"] = "a";
       },
       "unk_token"},
      {[](json& t) {
         t["normalizer"] = {{"type", "NFKC"}};
       },
       "normalizer NFKC"},
      {[](json& t) {
         t["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}};
       },
       "normalizer Lowercase"},
      {[](json& t) {
         t["pre_tokenizer"] = {{"type", "Metaspace"}};
       },
       "pre_tokenizer Metaspace"},
      {[](json& t) { t["pre_tokenizer"] = nullptr; }, "without a pre_tokenizer"},
      {[](json& t) { t["pre_tokenizer"]["use_regex"] = false; }, "without a regular expression"},
      {[](json& t) {
         t["pre_tokenizer"] = SplitBy("\\p{L}+");
         t["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed";
       },
       "other than Isolated"},
      {[](json& t) {
         t["pre_tokenizer"] = SplitBy("\\p{L}+");
         t["pre_tokenizer"]["pretokenizers"][0]["invert"] = true;
       },
       "invert"},
      {[](json& t) {
         t["pre_tokenizer"] = SplitBy("\\p{L}+");
         t["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true;
       },
       "add_prefix_space"},
      {[](json& t) {
         t["pre_tokenizer"] = SplitBy("a");
         const json digits = {{"type", "Digits"}};
         t["pre_tokenizer"]["pretokenizers"].push_back(digits);
       },
       "pre_tokenizer Digits"},
      {[](json& t) { t["pre_tokenizer"] = SplitBy("\\p{Han}+"); }, "\\p{Han}"},
      {[](json& t) { t["pre_tokenizer"] = SplitBy("(a"); }, "not a regular expression"},
      {[](json& t) { t["pre_tokenizer"] = SplitBy("a*"); }, "no character at all"},
      {[](json& t) {
         t["decoder"] = {{"type", "Metaspace"}};
       },
       "decoder Metaspace"},
  };
  for (const auto& c : cases) {
    ExpectError(StatusOf(c.edit), StatusCode::kUnimplemented,
                {"t/tokenizer.json: ", c.named, "not supported", ".npy"});
  }
  // With all bytes in the vocabulary nothing is ever unknown.
  EXPECT_TRUE(StatusOf([](json& t) { t["model"]["unk_token"] = "a"; }).ok());
}

TEST(TokenizerJson, WhatIsBrokenIsRefused) {
  const struct {
    std::function<void(json&)> edit;
    const char* why;
  } cases[] = {
      {[](json& t) { t = json::array(); }, "not an object"},
      {[](json& t) { t.erase("model"); }, "no model"},
      {[](json& t) { t["model"]["vocab"] = json::object(); }, "no vocab"},
      {[](json& t) { t["model"]["vocab"]["a"] = -1; }, "the id of \"a\""},
      {[](json& t) { t["model"]["vocab"]["a"] = 1e9; }, "the id of \"a\""},
      {[](json& t) { t["model"]["vocab"]["a"] = 4'000'000'000u; }, "the id of \"a\""},
      {[](json& t) { t["model"]["vocab"]["a"] = 5; }, "two tokens have the id 5"},
      {[](json& t) { t["model"]["vocab"][""] = 300; }, "the empty string"},
      {[](json& t) { t["model"].erase("merges"); }, "no merges"},
      {[](json& t) { t["model"]["merges"] = {"a b c"}; }, "is not two tokens"},
      {[](json& t) { t["model"]["merges"] = {"ab"}; }, "is not two tokens"},
      {[](json& t) { t["model"]["merges"] = json::parse(R"([["a", 1]])"); }, "neither"},
      {[](json& t) { t["model"]["merges"] = {"a c"}; }, "\"ac\", which is not in the vocabulary"},
      {[](json& t) {
         t["added_tokens"] = {{{"id", 257}}};
       },
       "no content or no id"},
      {[](json& t) { t["added_tokens"] = nlohmann::json::array({AddedTokenJson(9, "<s>")}); },
       "its place gives it 257"},
      {[](json& t) {
         t["added_tokens"] =
             nlohmann::json::array({AddedTokenJson(257, "<s>"), AddedTokenJson(257, "<s>")});
       },
       "257"},
      {[](json& t) {
         t["added_tokens"] = nlohmann::json::array({AddedTokenJson(257, "<s>", {{"lstrip", 1}})});
       },
       "neither true nor false"},
      {[](json& t) {
         t["added_tokens"] = nlohmann::json::array({AddedTokenJson(257, std::string(5000, 'x'))});
       },
       "more than 4096 bytes"},
  };
  for (const auto& c : cases) {
    ExpectError(StatusOf(c.edit), StatusCode::kInvalidArgument, {"t/tokenizer.json", c.why});
  }
  ExpectError(ParseTokenizerJson("{\n\"model\": }", "f").status(), StatusCode::kInvalidArgument,
              {"f:2"});
  ExpectError(ParseTokenizerJson("{\"a\":" + std::string(100, '['), "f").status(),
              StatusCode::kInvalidArgument, {"levels deep"});
}

}  // namespace
}  // namespace spillway
