#include "engine/tokenizers/normalizers.h"

#include <signal.h>

#include "engine/base/stop_signal.h"
#include "tests/engine/data/tokenizer_testing.h"

namespace spillway {
namespace {

std::string Normalized(const std::string& type, const std::string& text) {
  const auto document = ParseStrictJson("{\"type\": \"" + type + "\"}", "f");
  const auto rewrites = ReadNormalizers(JsonPart(&*document));
  EXPECT_TRUE(rewrites.ok()) << rewrites.status();
  return *RewriteAll(*rewrites, text);
}

// Python's unicodedata.normalize.
TEST(Normalizers, FormsAreUnicodes) {
  const std::string text = "s\u0307\u0323 \u1112\u1161\u11ab \u0344 \ufb01";
  EXPECT_EQ(Normalized("NFC", text), "\u1e69 \ud55c \u0308\u0301 \ufb01");
  EXPECT_EQ(Normalized("NFD", text), "s\u0323\u0307 \u1112\u1161\u11ab \u0308\u0301 \ufb01");
  EXPECT_EQ(Normalized("NFKC", text), "\u1e69 \ud55c \u0308\u0301 fi");
  EXPECT_EQ(Normalized("NFKD", text), "s\u0323\u0307 \u1112\u1161\u11ab \u0308\u0301 fi");
}

TEST(Normalizers, YoungCharactersStayAsTheyAre) {
  EXPECT_EQ(Normalized("NFC", "\U00011938"), "\U00011938");
  EXPECT_EQ(Normalized("NFD", "\U00011938"), "\U00011938") << "of 2020; it is two by now";
}

// Only short characters, as people see them, are looked up as a whole.
TEST(Normalizers, CharsmapsAreForWholeCharacters) {
  const auto document = ReadStrictJson(
      SPILLWAY_SOURCE_DIR "/tests/golden/tokenizers/families/t5.json", {.max_depth = 32});
  ASSERT_TRUE(document.ok()) << document.status();
  const auto rewrites = ReadNormalizers(JsonPart(&*document)["normalizer"]);
  ASSERT_TRUE(rewrites.ok()) << rewrites.status();
  EXPECT_EQ(*RewriteAll(*rewrites, "e\u0301 \ufb01\r\n"), "\u00e9 fi ");
  EXPECT_EQ(*RewriteAll(*rewrites, "Qu"), "quu") << "the shorter of two";
  EXPECT_EQ(*RewriteAll(*rewrites, "\U0001f1e9\U0001f1ea\u0344\u0344"),
            "\U0001f1e9\U0001f1ea\u0308\u0301\u0308\u0301");
}

TEST(Normalizers, WhatTheyMakeIsBounded) {
  const auto read = [](const nlohmann::json& normalizers) {
    const nlohmann::json all = {{"type", "Sequence"}, {"normalizers", normalizers}};
    const auto document = ParseStrictJson(all.dump(), "f");
    return ReadNormalizers(JsonPart(&*document));
  };
  const auto replace = [](const char* what, const std::string& with) {
    return nlohmann::json{{"type", "Replace"}, {"pattern", {{"String", what}}}, {"content", with}};
  };
  const std::string mebibyte(1 << 20, 'x');
  nlohmann::json squares = nlohmann::json::array();
  for (int i = 0; i < 40; ++i) squares.push_back(replace("a", "aa"));
  const std::pair<nlohmann::json, std::string> growing[] = {
      {squares, "ab"},
      {{replace("b", mebibyte), replace("x", "y")}, "bbbb"},
      {{replace("b", std::string(1000, 'c')), replace("c", std::string(1000, 'd'))}, "b b b b"},
      {{{{"type", "Prepend"}, {"prepend", mebibyte + mebibyte}}}, "a"},
      {{replace("a", std::string(30, 'e')), {{"type", "NFKC"}}, replace("e", "fff")},
       std::string(100 << 10, 'a')}};
  for (const auto& [normalizers, text] : growing) {
    const auto rewrites = read(normalizers);
    ASSERT_TRUE(rewrites.ok()) << rewrites.status();
    EXPECT_EQ(RewriteAll(*rewrites, text).status().code(), absl::StatusCode::kInvalidArgument);
    // And in a tokenizer.
    nlohmann::json json = SmallTokenizerJson();
    json["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
    EXPECT_EQ(TokenizerOf(json)->Encode(text).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(read(nlohmann::json(64, {{"type", "Lowercase"}})).ok());
  EXPECT_EQ(read(nlohmann::json(50000, {{"type", "Lowercase"}})).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(read(nlohmann::json(20, {{"type", "BertNormalizer"}})).status().code(),
            absl::StatusCode::kUnimplemented)
      << "each is several";
}

TEST(Normalizers, OtherPartsAreBoundedToo) {
  nlohmann::json json = SmallTokenizerJson();
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", nlohmann::json(65, {{"type", "Punctuation"}})}};
  EXPECT_EQ(ParseTokenizerJson(json.dump(), "f").status().code(), absl::StatusCode::kUnimplemented);
  json = SmallTokenizerJson();
  json["decoder"] = {{"type", "Sequence"}, {"decoders", nlohmann::json(65, {{"type", "Fuse"}})}};
  EXPECT_EQ(ParseTokenizerJson(json.dump(), "f").status().code(), absl::StatusCode::kUnimplemented);
  nlohmann::json grows = nlohmann::json::array();
  for (int i = 0; i < 40; ++i) {
    grows.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  }
  json["decoder"] = {{"type", "Sequence"}, {"decoders", grows}};
  EXPECT_EQ(TokenizerOf(json)->Decode({{'a'}}).status().code(), absl::StatusCode::kInvalidArgument);
  // An added token that is looked for in normalized text.
  json = SmallTokenizerJson();
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", grows}};
  json["added_tokens"] = {AddedTokenJson(256, "<a>", {{"normalized", true}})};
  const absl::Status status = ParseTokenizerJson(json.dump(), "f").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), testing::HasSubstr("f: added token 256: "));
}

TEST(Normalizers, ListenToAStopSignal) {
  const StopSignal signals;
  nlohmann::json json = SmallTokenizerJson();
  json["normalizer"] = {{"type", "NFC"}};
  const auto tokenizer = TokenizerOf(json);
  StopSignal::Receive(SIGTERM);
  EXPECT_EQ(tokenizer->Encode("a").status().code(), absl::StatusCode::kCancelled);
}

TEST(Normalizers, ManyMarksTakeLittleTime) {
  std::string text = "e";
  for (int i = 0; i < 200000; ++i) text += "\u0315\u05ae";  // classes 232 and 228: out of order
  EXPECT_EQ(Normalized("NFC", text).size(), text.size());
}

}  // namespace
}  // namespace spillway
