#include "engine/tokenizers/declared_tokens.h"

#include "engine/data/load_tokenizer.h"
#include "tests/engine/data/tokenizer_testing.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;

// tests/golden/make_declared.py.
TEST(DeclaredTokens, EqualTransformers) {
  const auto golden = nlohmann::json::parse(
      ReadFile(std::string(SPILLWAY_SOURCE_DIR) + "/tests/golden/tokenizers/declared.json"));
  EXPECT_GE(golden["cases"].size(), 15u);
  for (const auto& [name, expected] : golden["cases"].items()) {
    ScratchDirectory directory;
    WriteFile(directory / "tokenizer.json", golden["tokenizer"].dump());
    for (const auto& [file, content] : expected["files"].items()) {
      WriteFile(directory / file, content.dump());
    }
    const auto loaded = LoadTokenizer(directory.path());
    ASSERT_TRUE(loaded.ok()) << name << ": " << loaded.status();
    const Tokenizer& tokenizer = **loaded;
    const std::vector<std::string> tokens = expected["tokens"];
    ASSERT_EQ(tokenizer.vocabulary_size(), static_cast<int64_t>(tokens.size())) << name;
    std::vector<int64_t> special;
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(tokenizer.TextOf(static_cast<int64_t>(i)), tokens[i]) << name;
      EXPECT_EQ(tokenizer.Find(tokens[i]), i) << name;
      if (tokenizer.IsSpecial(static_cast<int64_t>(i))) special.push_back(static_cast<int64_t>(i));
    }
    EXPECT_EQ(nlohmann::json(special), expected["special"]) << name;
    const nlohmann::json end =
        tokenizer.end_of_text() ? nlohmann::json(*tokenizer.end_of_text()) : nlohmann::json();
    EXPECT_EQ(end, expected["end"]) << name;
    const auto encoded = tokenizer.Encode(expected["text"].get<std::string>());
    ASSERT_TRUE(encoded.ok()) << name << ": " << encoded.status();
    EXPECT_EQ(nlohmann::json(*encoded), expected["encoded"]) << name;
  }
}

class DeclaredTokensFolder : public testing::Test {
 protected:
  void SetUp() override { WriteFile(scratch_ / "tokenizer.json", SmallTokenizerJson().dump()); }
  void Write(const std::string& name, const nlohmann::json& content) {
    WriteFile(scratch_ / name, content.dump());
  }
  std::unique_ptr<Tokenizer> Load() {
    auto loaded = LoadTokenizer(scratch_.path());
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return *std::move(loaded);
  }
  ScratchDirectory scratch_;
};

TEST_F(DeclaredTokensFolder, NewTokensChangeTheFingerprintAndAreSaved) {
  const std::string plain = Load()->fingerprint();
  Write("tokenizer_config.json", {{"tokenizer_class", "Any"}, {"model_max_length", 5}});
  EXPECT_EQ(Load()->fingerprint(), plain) << "nothing is declared";
  Write("added_tokens.json", {{"<tool>", 300}});
  const auto tokenizer = Load();
  EXPECT_NE(tokenizer->fingerprint(), plain);
  EXPECT_EQ(*tokenizer->Encode("a<tool>"), (std::vector<int64_t>{'a', 256}));
  EXPECT_FALSE(tokenizer->IsSpecial(256));
  EXPECT_TRUE(tokenizer->IsAdded(256));
  ScratchDirectory copy;
  ASSERT_TRUE(tokenizer->Save(copy.path()).ok());
  EXPECT_EQ((*LoadTokenizer(copy.path()))->fingerprint(), tokenizer->fingerprint());
}

TEST_F(DeclaredTokensFolder, AnotherEndOfTextIsSaved) {
  nlohmann::json json = SmallTokenizerJson();
  json["added_tokens"] =
      nlohmann::json::array({AddedTokenJson(256, "<e>"), AddedTokenJson(257, "<x>")});
  Write("tokenizer.json", json);
  Write("tokenizer_config.json", {{"eos_token", "<e>"}, {"pad_token", "<e>"}});
  Write("special_tokens_map.json", {{"eos_token", "<e>"}, {"additional_special_tokens", {"<x>"}}});
  const auto asked = LoadTokenizer(scratch_.path(), "<x>");
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ((*asked)->end_of_text(), (*asked)->Find("<x>"));
  ScratchDirectory copy;
  ASSERT_TRUE((*asked)->Save(copy.path()).ok());
  EXPECT_EQ((*LoadTokenizer(copy.path()))->end_of_text(), (*asked)->Find("<x>"));
  const auto saved = nlohmann::json::parse(ReadFile(copy / "tokenizer_config.json"));
  EXPECT_EQ(saved, (nlohmann::json{{"eos_token", "<x>"}, {"pad_token", "<e>"}}));
  ExpectError(LoadTokenizer(scratch_.path(), "<none>").status(), StatusCode::kInvalidArgument,
              {"--eos-token <none>", "no such token"});
  // A new token would lose its id with its name.
  Write("added_tokens.json", {{"<y>", 300}});
  ExpectError(LoadTokenizer(scratch_.path(), "<x>").status(), StatusCode::kInvalidArgument,
              {"--eos-token <x>", "1 tokens", "save_pretrained"});
  EXPECT_TRUE(LoadTokenizer(scratch_.path(), "<e>").ok());
}

TEST_F(DeclaredTokensFolder, AModelNeedsNoRoomForThoseThatEndNoText) {
  Write("tokenizer_config.json", {{"pad_token", "<p>"}, {"unk_token", "<u>"}});
  EXPECT_TRUE(CheckVocabulary(*Load(), 256).ok());
  EXPECT_FALSE(CheckVocabulary(*Load(), 255).ok());
  Write("tokenizer_config.json", {{"pad_token", "<p>"}, {"eos_token", "<e>"}});
  EXPECT_TRUE(CheckVocabulary(*Load(), 257).ok()) << "<e> comes first";
  ExpectError(CheckVocabulary(*Load(), 256), StatusCode::kInvalidArgument, {"258 tokens", "256"});
}

// As GPT2Tokenizer and LlamaTokenizer have it.
TEST_F(DeclaredTokensFolder, APrefixSpaceIsWhatTheConfigSays) {
  using Tokens = std::vector<int64_t>;
  EXPECT_EQ(*Load()->Encode("a"), (Tokens{'a'}));
  Write("tokenizer_config.json", {{"add_prefix_space", true}});
  EXPECT_EQ(*Load()->Encode("a"), (Tokens{' ', 'a'}));
  Write("tokenizer_config.json",
        {{"add_prefix_space", true}, {"tokenizer_class", "PreTrainedTokenizerFast"}});
  EXPECT_EQ(*Load()->Encode("a"), (Tokens{'a'})) << "a class that takes the file as it is";

  nlohmann::json vocabulary = {{"\u2581", 0}, {"a", 1}, {"\u2581a", 2}};
  nlohmann::json json = {
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Prepend"}, {"prepend", "\u2581"}},
          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}}},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
          {{"type", "Fuse"}},
          {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"\u2581 a"}}}}};
  Write("tokenizer.json", json);
  Write("tokenizer_config.json", {{"tokenizer_class", "LlamaTokenizer"}});
  EXPECT_EQ(*Load()->Encode("a a"), (Tokens{2, 2}));
  EXPECT_EQ(*Load()->Decode(Tokens{2, 2}), "a a");
  Write("tokenizer_config.json",
        {{"tokenizer_class", "LlamaTokenizer"}, {"add_prefix_space", false}});
  EXPECT_EQ(*Load()->Encode("a a"), (Tokens{1, 2}));
  EXPECT_EQ(*Load()->Decode(Tokens{2, 2}), " a a");
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {{"type", "Metaspace"},
                           {"replacement", "\u2581"},
                           {"split", false},
                           {"prepend_scheme", "first"}};
  Write("tokenizer.json", json);
  EXPECT_EQ(*Load()->Encode("a a"), (Tokens{1, 2}));
}

TEST_F(DeclaredTokensFolder, WhatIsNoTokenIsNamed) {
  const std::pair<const char*, std::pair<const char*, const char*>> broken[] = {
      {"tokenizer_config.json", {R"({"eos_token": 5})", "/eos_token is no token"}},
      {"tokenizer_config.json", {R"({"pad_token": {"text": "a"}})", "/pad_token is no token"}},
      {"tokenizer_config.json", {R"({"added_tokens_decoder": []})", "/added_tokens_decoder"}},
      {"tokenizer_config.json",
       {R"({"added_tokens_decoder": {"x": {"content": "a"}}})", "/added_tokens_decoder/x"}},
      {"tokenizer_config.json", {R"({"extra_special_tokens": [1]})", "/extra_special_tokens/0"}},
      {"tokenizer_config.json", {"[]", "no JSON object"}},
      {"special_tokens_map.json", {R"({"bos_token": true})", "/bos_token"}},
      {"added_tokens.json", {R"({"<a>": "5"})", "/<a> has no whole number"}},
      {"added_tokens.json", {"{", "added_tokens.json:1"}}};
  for (const auto& [file, content] : broken) {
    ScratchDirectory directory;
    WriteFile(directory / "tokenizer.json", SmallTokenizerJson().dump());
    WriteFile(directory / file, content.first);
    ExpectError(LoadTokenizer(directory.path()).status(), StatusCode::kInvalidArgument,
                {file, content.second});
  }
}

}  // namespace
}  // namespace spillway
