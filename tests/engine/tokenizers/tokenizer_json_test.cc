#include "engine/tokenizers/tokenizer_json.h"

#include <functional>

#include "io/checksum.h"
#include "tests/engine/data/tokenizer_testing.h"
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
  const auto pairs = *TokenizerOf(value)->Encode("xabc");
  EXPECT_EQ(pairs, (std::vector<int64_t>{'x', 257}));
  value["model"]["merges"] = {"#version: 0.2", "a b", "ab c"};
  EXPECT_EQ(*TokenizerOf(value)->Encode("xabc"), pairs);
}

// Whisper's vocabularies of several languages end with it.
TEST(TokenizerJson, TheEmptyStringCanHaveAPlaceInTheVocabulary) {
  json value = SmallTokenizerJson({{"a", "b"}});
  const int64_t place = TokenizerOf(value)->vocabulary_size();
  value["model"]["vocab"][""] = place;
  value["model"]["unk_token"] = "";
  value["added_tokens"] = {{{"content", "<end>"}, {"id", place + 1}, {"special", true}}};
  const auto tokenizer = TokenizerOf(value);
  EXPECT_EQ(tokenizer->vocabulary_size(), place + 2);
  EXPECT_EQ(*tokenizer->Encode("xab<end>"), (std::vector<int64_t>{'x', 256, place + 1}));
  EXPECT_EQ(*tokenizer->Decode({'x', place, 256}), "xab");
}

// It is in every commit's identity: taking the model as it is parsed must not change it.
TEST(TokenizerJson, ItsDigestIsOfItsPartsAsJsonWritesThem) {
  std::vector<json> values = {SmallTokenizerJson({{"a", "b"}, {"ab", "\xc3\xa9"}})};
  values.push_back(values[0]);
  values.back()["model"]["merges"] = {"#version: 0.2", "a b", json::array({"ab", "c"})};
  values.back()["model"]["vocab"]["abc"] = 258;
  values.back()["model"]["vocab"]["\"\\\n\u007f"] = 259;
  values.back().erase("normalizer");
  values.push_back(values[0]);
  values.back()["model"] = json::parse(
      R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1.5], ["b", 0.0], ["\u00e9", -3e-7]]})");
  values.push_back(values[0]);
  values.back()["model"] =
      json::parse(R"({"vocab": {"[UNK]": 0, "b": 2, "a": 1}, "type": "WordLevel"})");
  for (const json& value : values) {
    Digest digest;
    for (const char* key : {"normalizer", "pre_tokenizer", "model", "added_tokens"}) {
      const std::string part = value.contains(key) ? value[key].dump() : "null";
      digest.Update(part.c_str(), part.size() + 1);
    }
    const auto parts = ParseTokenizerJson(value.dump(1), "t/tokenizer.json");
    ASSERT_TRUE(parts.ok()) << parts.status();
    EXPECT_EQ(parts->digest, digest.value()) << value["model"]["type"];
  }
}

TEST(TokenizerJson, ATokenThatIsThereTwiceIsRefused) {
  std::string text = SmallTokenizerJson({{"a", "b"}}).dump();
  const std::string token = "\"a\":97,";
  const size_t at = text.find(token);
  ASSERT_NE(at, std::string::npos);
  text.insert(at, token);
  ExpectError(ParseTokenizerJson(text, "t/tokenizer.json").status(), StatusCode::kInvalidArgument,
              {"t/tokenizer.json:1: ", "\"a\" appears twice"});
}

// It is for training a tokenizer's user on many ways to write a text; NB-Whisper's file has it.
TEST(TokenizerJson, DropoutIsLeftOutWithAWarning) {
  json value = SmallTokenizerJson({{"a", "b"}, {"ab", "c"}});
  for (const json& none : {json(), json(0), json(0.0)}) {
    value["model"]["dropout"] = none;
    EXPECT_TRUE(ParseTokenizerJson(value.dump(), "f")->warnings.empty());
  }
  for (const json& some : {json(0.1), json(1), json(1.0)}) {
    value["model"]["dropout"] = some;
    const auto parts = ParseTokenizerJson(value.dump(), "f");
    ASSERT_TRUE(parts.ok()) << parts.status();
    EXPECT_THAT(parts->warnings, testing::ElementsAre(testing::HasSubstr("f:1: BPE's dropout")));
    EXPECT_EQ(*TokenizerOf(value)->Encode("xabc"), (std::vector<int64_t>{'x', 257}));
  }
  value["model"]["dropout"] = "often";
  ExpectError(ParseTokenizerJson(value.dump(), "f").status(), StatusCode::kInvalidArgument,
              {"/model/dropout: not a number"});
}

TEST(TokenizerJson, WhatIsNotSupportedIsNamedWithARemedy) {
  const auto type = [](const char* part, json value) { return [=](json& t) { t[part] = value; }; };
  const struct {
    std::function<void(json&)> edit;
    const char* named;
  } cases[] = {
      {[](json& t) { t["model"]["type"] = "Trie"; }, "/model: the type Trie"},
      {[](json& t) { t["model"]["alpha"] = 1; }, "\"alpha\" of BPE"},
      {type("normalizer", {{"type", "Soup"}}), "/normalizer: the type Soup"},
      {type("normalizer",
            {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Soup"}}}}}),
       "/normalizer/normalizers/1: the type Soup"},
      {type("normalizer", {{"type", "NFC"}, {"form", "x"}}), "\"form\" of NFC"},
      {type("pre_tokenizer", {{"type", "UnicodeScripts"}}),
       "/pre_tokenizer: the type UnicodeScripts"},
      {type("pre_tokenizer", json::object()), "what has no type"},
      {type("pre_tokenizer", SplitBy("\\p{Han}+")), "\\p{Han}"},
      {type("pre_tokenizer", SplitBy("(a")), "not a regular expression"},
      {type("pre_tokenizer", SplitBy("a*")), "no character at all"},
      {type("decoder", {{"type", "CTC"}}), "/decoder: the type CTC"},
      {type("post_processor", {{"type", "Soup"}}), "/post_processor: the type Soup"},
  };
  for (const auto& c : cases) {
    ExpectError(StatusOf(c.edit), StatusCode::kUnimplemented,
                {"t/tokenizer.json:1: ", c.named, "not supported", ".npy"});
  }
}

TEST(TokenizerJson, WhatIsBrokenIsRefused) {
  const struct {
    std::function<void(json&)> edit;
    const char* why;
  } cases[] = {
      {[](json& t) { t = json::array(); }, "not an object"},
      {[](json& t) { t.erase("model"); }, "no model"},
      {[](json& t) { t["model"]["vocab"] = json::object(); }, "/model/vocab: no vocabulary"},
      {[](json& t) { t["model"]["vocab"]["a"] = -1; }, "the id of \"a\""},
      {[](json& t) { t["model"]["vocab"]["a"] = 1e9; }, "the id of \"a\""},
      {[](json& t) { t["model"]["vocab"]["a"] = 4'000'000'000u; }, "the id of \"a\""},
      {[](json& t) { t["model"]["vocab"]["a"] = 5; }, "two tokens have the id 5"},
      {[](json& t) { t["model"]["merges"] = {" a"}; }, "a merge needs the token \"\""},
      {[](json& t) { t["model"]["merges"] = 1; }, "no merges"},
      {[](json& t) {
         t["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "?"}};
       },
       "precompiled_charsmap: not base64"},
      {[](json& t) {
         t["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "/////w=="}};
       },
       "its trie is cut off"},
      {[](json& t) {
         t["normalizer"] = {{"type", "Sequence"}, {"normalizers", 1}};
       },
       "not an array"},
      {[](json& t) {
         t["pre_tokenizer"] = {{"type", "Metaspace"}};
       },
       "replacement: not a string"},
      {[](json& t) { t["pre_tokenizer"]["add_prefix_space"] = 1; }, "neither true nor false"},
      {[](json& t) {
         t["pre_tokenizer"] = SplitBy("a"),
         t["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "x";
       },
       "behavior is none of"},
      {[](json& t) {
         t["model"] = {{"type", "Unigram"}, {"vocab", json::parse(R"([["a", 1.5], ["b"]])")}};
       },
       "entry 1 is not a token with its score"},
      {[](json& t) {
         t["model"] = {
             {"type", "Unigram"}, {"unk_id", 2}, {"vocab", json::parse(R"([["a", 1.5]])")}};
       },
       "unk_id: no such token"},
      {[](json& t) {
         t["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"x"}}};
       },
       "not a token and its id"},
      {[](json& t) {
         t["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {{{"Sequence", {{"id", "B"}, {"type_id", 0}}}}}}};
       },
       "no text of that name"},
      {[](json& t) { t["model"]["merges"] = {"a b c"}; }, "is not two tokens"},
      {[](json& t) { t["model"]["merges"] = {"ab"}; }, "is not two tokens"},
      {[](json& t) { t["model"]["merges"] = json::parse(R"([["a", 1]])"); }, "neither"},
      {[](json& t) { t["model"]["merges"] = {"a c"}; }, "\"ac\", which is not in the vocabulary"},
      {[](json& t) {
         t["added_tokens"] = {{{"id", 257}}};
       },
       "/added_tokens/0/content: not a string"},
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
