#include "engine/tokenizers/pipeline_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <random>

#include "absl/strings/str_format.h"
#include "engine/data/load_tokenizer.h"
#include "tests/engine/data/tokenizer_testing.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;
using TokenIds = std::vector<int64_t>;

// h e l l o w r -> he ll hell hello, and with a space before it.
nlohmann::json HelloJson() {
  return SmallTokenizerJson(
      {{"l", "l"}, {"h", "e"}, {"he", "ll"}, {"hell", "o"}, {"\u0120", "hello"}, {"a", "a"}});
}

TokenIds Encoded(const nlohmann::json& json, const std::string& text) {
  return *TokenizerOf(json)->Encode(text);
}

TEST(PipelineTokenizer, MergesTheLowestRankFirst) {
  EXPECT_EQ(Encoded(HelloJson(), "hello hello"), (TokenIds{259, 260}));
  EXPECT_EQ(Encoded(HelloJson(), "ehello"), (TokenIds{'e', 259}));
  EXPECT_EQ(Encoded(HelloJson(), "lll"), (TokenIds{256, 'l'})) << "the leftmost of equals";
  // "ll" outranks "he", so these letters never become "hel".
  EXPECT_EQ(Encoded(HelloJson(), "hel"), (TokenIds{257, 'l'}));
}

TEST(PipelineTokenizer, LongWordsAreMergedAsShortOnesAre) {
  // Around the length at which the way of merging changes.
  for (size_t length = 80; length < 120; ++length) {
    std::string word;
    for (size_t i = 0; i < length; ++i) word += "hello"[i % 5];
    TokenIds expected(length / 5, 259);
    const std::string rest = word.substr(length / 5 * 5);
    for (const int64_t token : Encoded(HelloJson(), rest)) expected.push_back(token);
    EXPECT_EQ(Encoded(HelloJson(), word), expected) << length;
  }
  EXPECT_EQ(Encoded(HelloJson(), std::string(200001, 'a')).size(), 100001u);
}

TEST(PipelineTokenizer, IgnoreMergesTakesWholeWords) {
  nlohmann::json json = HelloJson();
  json["model"]["vocab"]["eh"] = 262;
  EXPECT_EQ(Encoded(json, "eh eh"), (TokenIds{'e', 'h', ' ', 'e', 'h'}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(Encoded(json, "eh eh"), (TokenIds{262, ' ', 'e', 'h'}));
}

TEST(PipelineTokenizer, PrefixSpaceIsForEverySegment) {
  nlohmann::json json = HelloJson();
  json["added_tokens"] = nlohmann::json::array({AddedTokenJson(262, "<s>")});
  json["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(Encoded(json, "hello<s>hello<s> hello<s>"), (TokenIds{260, 262, 260, 262, 260, 262}));
  EXPECT_EQ(Encoded(json, ""), TokenIds{});
}

TEST(PipelineTokenizer, AddedTokensAreTheLongestFromTheLeft) {
  nlohmann::json json = HelloJson();
  json["added_tokens"] = nlohmann::json::array(
      {AddedTokenJson(262, "<a"), AddedTokenJson(263, "<a><b>"), AddedTokenJson(264, "a><")});
  EXPECT_EQ(Encoded(json, "<a><b>"), (TokenIds{263}));
  EXPECT_EQ(Encoded(json, "<a><b"), (TokenIds{262, '>', '<', 'b'}));
  EXPECT_EQ(Encoded(json, "xa><b>"), (TokenIds{'x', 264, 'b', '>'}));
  EXPECT_EQ(Encoded(json, "<"), (TokenIds{'<'}));
}

TEST(PipelineTokenizer, AddedTokensTakeWhiteSpaceAlong) {
  nlohmann::json json = HelloJson();
  json["added_tokens"] =
      nlohmann::json::array({AddedTokenJson(262, "<l>", {{"lstrip", true}}),
                             AddedTokenJson(263, "<r>", {{"rstrip", true}}),
                             AddedTokenJson(264, "one", {{"single_word", true}})});
  EXPECT_EQ(Encoded(json, "b \u3000\t<l> c"), (TokenIds{'b', 262, ' ', 'c'}));
  EXPECT_EQ(Encoded(json, "b <r> \n\u00a0c"), (TokenIds{'b', ' ', 263, 'c'}));
  EXPECT_EQ(Encoded(json, "<r>  <l>"), (TokenIds{263, 262}));
  EXPECT_EQ(Encoded(json, "one,one"), (TokenIds{264, ',', 264}));
  EXPECT_EQ(Encoded(json, "xone"), (TokenIds{'x', 'o', 'n', 'e'}));
  EXPECT_EQ(Encoded(json, "one_"), (TokenIds{'o', 'n', 'e', '_'}));
}

TEST(PipelineTokenizer, WhiteSpaceThatATokenTookAlongIsNoOther) {
  nlohmann::json json = HelloJson();
  json["added_tokens"] =
      nlohmann::json::array({AddedTokenJson(262, "  ", {{"lstrip", true}, {"rstrip", true}}),
                             AddedTokenJson(263, "\t\t", {{"rstrip", true}})});
  const auto tokenizer = TokenizerOf(json);
  for (size_t cut = 0; cut < 8; ++cut) {
    EXPECT_EQ(EncodeCut(*tokenizer, "a      b", {cut}), (std::vector<uint32_t>{'a', 262, 'b'}));
  }
  EXPECT_EQ(Encoded(json, "a\t\t    b"), (TokenIds{'a', 263, 'b'}));
  EXPECT_EQ(Encoded(json, "a\t\t\t\tb"), (TokenIds{'a', 263, 263, 'b'})) << "it strips no left";
}

std::vector<size_t> TokenEnds(const nlohmann::json& json, const std::string& text) {
  const auto tokenizer = TokenizerOf(json);
  return tokenizer->EndsIn(text, EncodeCut(*tokenizer, text, {}));
}

TEST(PipelineTokenizer, KnowsInWhichByteATokenEnds) {
  using Ends = std::vector<size_t>;
  nlohmann::json json = HelloJson();
  json["added_tokens"] =
      nlohmann::json::array({AddedTokenJson(262, "<r>", {{"rstrip", true}, {"lstrip", true}})});
  EXPECT_EQ(TokenEnds(json, "hello hello"), (Ends{5, 11}));
  EXPECT_EQ(TokenEnds(json, "b <r>\n\u00e9"), (Ends{1, 5, 7, 8}));
  json["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(TokenEnds(json, "hello e"), (Ends{5, 6, 7}));
  EXPECT_EQ(TokenEnds(json, "e\u0301"), Ends{}) << "it is another text";
  // SentencePiece's kind puts a space before each stretch between added tokens.
  nlohmann::json vocabulary = {{"\u2581", 256}, {"a", 257}, {"\u2581a", 258}};
  for (int byte = 0; byte < 256; ++byte) vocabulary[absl::StrFormat("<0x%02X>", byte)] = byte;
  const nlohmann::json llama = {
      {"added_tokens", nlohmann::json::array({AddedTokenJson(259, "</s>")})},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Prepend"}, {"prepend", "\u2581"}},
          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}}},
      {"pre_tokenizer", nullptr},
      {"decoder", {{"type", "ByteFallback"}}},
      {"model",
       {{"type", "BPE"},
        {"byte_fallback", true},
        {"unk_token", nullptr},
        {"vocab", vocabulary},
        {"merges", {"\u2581 a"}}}}};
  EXPECT_EQ(TokenEnds(llama, "a a</s>a\u00e9</s>\n"), (Ends{1, 3, 7, 8, 9, 10, 14, 14, 15}));
}

TEST(PipelineTokenizer, NormalizedTokensAreFoundAfterTheOthers) {
  nlohmann::json json = HelloJson();
  json["normalizer"] = {{"type", "NFC"}};
  json["added_tokens"] = nlohmann::json::array(
      {AddedTokenJson(262, "e\u0303", {{"normalized", true}}), AddedTokenJson(263, "xe"),
       AddedTokenJson(264, "x\u1ebd", {{"normalized", true}})});
  EXPECT_EQ(Encoded(json, "\u1ebde\u0303"), (TokenIds{262, 262}));
  EXPECT_EQ(Encoded(json, "xe\u0303"), (TokenIds{263, 0xcc, 0x83})) << "raw text comes first";
  EXPECT_EQ(Encoded(json, "yx\u1ebd"), (TokenIds{'y', 264}));
}

// Everything that may be held back, in one text.
const char kMixed[] =
    "hello  hello\n\n  x\t\r\nhello<l> <r>  one e\u0303 e\u0301\u0323 "
    "\u1112\u1161\u11ab\u4f60\u597d "
    "\U0001F468\u200D\U0001F469 I'LL 12345 <end <end> \u3000<l>\xff\xe4\xbd hello\xed\xa0\x80  ";

nlohmann::json EverythingJson(bool nfc) {
  nlohmann::json json = HelloJson();
  if (nfc) json["normalizer"] = {{"type", "NFC"}};
  json["added_tokens"] = nlohmann::json::array(
      {AddedTokenJson(262, "<l>", {{"lstrip", true}}),
       AddedTokenJson(263, "<r>", {{"rstrip", true}}),
       AddedTokenJson(264, "one", {{"single_word", true}}), AddedTokenJson(265, "<end>"),
       AddedTokenJson(266, "\u1ebd", {{"normalized", true}})});
  return json;
}

TEST(PipelineTokenizer, PiecesMayEndAnywhere) {
  const std::string text(kMixed, sizeof(kMixed) - 1);
  for (const bool nfc : {false, true}) {
    const auto tokenizer = TokenizerOf(EverythingJson(nfc));
    const std::vector<uint32_t> whole = EncodeCut(*tokenizer, text, {});
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      ASSERT_EQ(EncodeCut(*tokenizer, text, {cut}), whole) << "cut at " << cut;
    }
    std::vector<size_t> every(text.size());
    for (size_t i = 0; i < text.size(); ++i) every[i] = i;
    ASSERT_EQ(EncodeCut(*tokenizer, text, every), whole);
    constexpr uint64_t kSeed = 20261121;
    std::mt19937_64 random(kSeed);
    for (int round = 0; round < 200; ++round) {
      std::vector<size_t> cuts;
      for (int i = 0; i < 8; ++i) cuts.push_back(random() % (text.size() + 1));
      std::sort(cuts.begin(), cuts.end());
      ASSERT_EQ(EncodeCut(*tokenizer, text, cuts), whole) << "seed " << kSeed << " round " << round;
    }
  }
}

TEST(PipelineTokenizer, AnEncoderTakesOneTextAfterAnother) {
  const auto tokenizer = TokenizerOf(EverythingJson(true));
  const auto encoder = tokenizer->NewEncoder("t");
  for (const char* text : {"hello <", "l>", "e", "\u0301", " ", "one", "one", ""}) {
    std::vector<uint32_t> tokens;
    ASSERT_TRUE(encoder->Encode(text, &tokens).ok());
    ASSERT_TRUE(encoder->Finish(&tokens).ok());
    EXPECT_EQ(tokens, EncodeCut(*tokenizer, text, {})) << text;
  }
}

TEST(PipelineTokenizer, StretchesWithoutAnEndAreCutWhereTheTextSays) {
  const auto tokenizer = TokenizerOf(EverythingJson(true));
  std::string marks = "e";
  while (marks.size() < kMaxHeldBytes + 1000) marks += "\u0301\u0323";
  const std::string texts[] = {std::string(kMaxHeldBytes + 7, 'a'),
                               std::string(kMaxHeldBytes + 5, ' ') + "<l>", marks,
                               "x" + std::string(kMaxHeldBytes, 'a') + "<end>b"};
  for (const std::string& text : texts) {
    SCOPED_TRACE(text.substr(0, 4));
    const std::vector<uint32_t> whole = EncodeCut(*tokenizer, text, {});
    EXPECT_EQ(EncodeCut(*tokenizer, text, {1, 100, kMaxHeldBytes - 1, kMaxHeldBytes}), whole);
    std::vector<size_t> cuts;
    for (size_t cut = 0; cut < text.size(); cut += 270001) cuts.push_back(cut);
    EXPECT_EQ(EncodeCut(*tokenizer, text, cuts), whole);
  }
  // A word of a megabyte, and one of seven letters.
  EXPECT_EQ(EncodeCut(*tokenizer, texts[0], {}).size(), kMaxHeldBytes / 2 + 4);
}

TEST(PipelineTokenizer, WrongBytesBecomeReplacementCharacters) {
  const auto tokenizer = TokenizerOf(HelloJson());
  EXPECT_EQ(*tokenizer->Encode("a\xff\xf0\x9f\x98"), *tokenizer->Encode("a\ufffd\ufffd"));
  const auto encoder = tokenizer->NewEncoder("bad.txt");
  std::vector<uint32_t> tokens;
  testing::internal::CaptureStderr();
  ASSERT_TRUE(encoder->Encode("abc\xe2\x82", &tokens).ok());
  ASSERT_TRUE(encoder->Encode("x\xff", &tokens).ok());
  ASSERT_TRUE(encoder->Finish(&tokens).ok());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("bad.txt: 2 places are not valid UTF-8 (the first at byte 3)"));
}

TEST(PipelineTokenizer, AByteWithoutATokenIsAnError) {
  nlohmann::json json = HelloJson();
  json["model"]["vocab"].erase("z");
  ExpectError(TokenizerOf(json)->Encode("az").status(), StatusCode::kInvalidArgument,
              {"no token for the byte 0x7a"});
}

// Whatever part writes bytes in GPT-2's alphabet, the message has the byte, and where it stands.
TEST(PipelineTokenizer, AByteWithoutATokenHasAPlace) {
  nlohmann::json last = HelloJson(), before = HelloJson(), normalizer = HelloJson();
  before["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers", {last["pre_tokenizer"], {{"type", "Digits"}}}}};
  normalizer["normalizer"] = {{"type", "ByteLevel"}};
  normalizer["pre_tokenizer"] = nullptr;
  for (nlohmann::json json : {last, before, normalizer}) {
    for (const char* letter : {"\u010b", "\u010a", "\u0143"}) {  // 0x0b, 0x0a, 0xad
      json["model"]["vocab"].erase(letter);
    }
    const auto tokenizer = TokenizerOf(json);
    for (const auto& [text, named] :
         {std::pair{"a\vb", "the text: byte 1: the tokenizer has no token for the byte 0x0b"},
          std::pair{"hello hello\n", "byte 11: the tokenizer has no token for the byte 0x0a"},
          std::pair{"\u00e9\u00ad", "byte 3: the tokenizer has no token for the byte 0xad"}}) {
      ExpectError(tokenizer->Encode(text).status(), StatusCode::kInvalidArgument, {named});
    }
    // In pieces, and far behind.
    const auto encoder = tokenizer->NewEncoder("long.txt");
    std::vector<uint32_t> tokens;
    const std::string piece(1 << 20, 'a');
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(encoder->Encode(piece, &tokens).ok());
    absl::Status status = encoder->Encode("aa\v", &tokens);
    if (status.ok()) status = encoder->Finish(&tokens);
    ExpectError(status, StatusCode::kInvalidArgument,
                {absl::StrCat("long.txt: byte ", (5 << 20) + 2, ": ")});
  }
  // Characters that are no bytes.
  const nlohmann::json unigram = {
      {"model", {{"type", "Unigram"}, {"vocab", nlohmann::json::parse(R"([["a", -1.0]])")}}}};
  ExpectError(TokenizerOf(unigram)->Encode("aa\u00e9").status(), StatusCode::kInvalidArgument,
              {"byte 2: the tokenizer has no token for U+00E9", "unk_id"});
}

TEST(PipelineTokenizer, DecodesBytes) {
  const auto tokenizer = TokenizerOf(EverythingJson(false));
  EXPECT_EQ(*tokenizer->Decode(TokenIds{260, 0xc3, 0xa9, 265}), " hello\u00e9<end>");
  ExpectError(tokenizer->Decode(TokenIds{267}).status(), StatusCode::kInvalidArgument,
              {"token 267"});
  EXPECT_EQ(tokenizer->vocabulary_size(), 267);
}

TEST(PipelineTokenizer, FingerprintIsOfAllThatMatters) {
  const std::string hello = TokenizerOf(HelloJson())->fingerprint();
  EXPECT_EQ(TokenizerOf(HelloJson())->fingerprint(), hello);
  std::vector<nlohmann::json> others(6, HelloJson());
  std::swap(others[0]["model"]["merges"][0], others[0]["model"]["merges"][1]);
  others[1]["model"]["ignore_merges"] = true;
  others[2]["normalizer"] = {{"type", "NFC"}};
  others[3]["pre_tokenizer"] = SplitBy("\\p{L}+");
  others[4]["added_tokens"] = nlohmann::json::array({AddedTokenJson(262, "<l>")});
  others[5]["added_tokens"] =
      nlohmann::json::array({AddedTokenJson(262, "<l>", {{"lstrip", true}})});
  std::vector<std::string> seen = {hello};
  for (const nlohmann::json& other : others) {
    seen.push_back(TokenizerOf(other)->fingerprint());
    EXPECT_EQ(std::count(seen.begin(), seen.end(), seen.back()), 1);
  }
}

class TokenizerFolder : public testing::Test {
 protected:
  void SetUp() override {
    nlohmann::json json = HelloJson();
    json["added_tokens"] =
        nlohmann::json::array({AddedTokenJson(262, "<|endoftext|>"), AddedTokenJson(263, "</s>")});
    WriteFile(scratch_ / "tokenizer.json", json.dump());
  }
  std::optional<uint32_t> EndOfText() {
    const auto tokenizer = LoadTokenizer(scratch_.path());
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return (*tokenizer)->end_of_text();
  }
  ScratchDirectory scratch_;
};

TEST_F(TokenizerFolder, EndOfTextIsTheFirstThatIsNamed) {
  EXPECT_EQ(EndOfText(), 262u) << "by its name";
  WriteFile(scratch_ / "generation_config.json", R"({"eos_token_id": [104, 263]})");
  EXPECT_EQ(EndOfText(), 104u);
  WriteFile(scratch_ / "config.json", R"({"eos_token_id": 105})");
  EXPECT_EQ(EndOfText(), 105u);
  WriteFile(scratch_ / "config.json", R"({"eos_token_id": 99999})");
  EXPECT_EQ(EndOfText(), 104u) << "no such token";
  WriteFile(scratch_ / "special_tokens_map.json", R"({"eos_token": {"content": "</s>"}})");
  EXPECT_EQ(EndOfText(), 263u);
  WriteFile(scratch_ / "tokenizer_config.json", R"({"eos_token": "hello"})");
  EXPECT_EQ(EndOfText(), 263u) << "in transformers the map's counts";
  WriteFile(scratch_ / "tokenizer_config.json",
            R"({"eos_token": "hello", "added_tokens_decoder": {}})");
  EXPECT_EQ(EndOfText(), 259u) << "and here the config's";
  WriteFile(scratch_ / "tokenizer_config.json", R"({"eos_token": null})");
  EXPECT_EQ(EndOfText(), 263u);
  WriteFile(scratch_ / "tokenizer_config.json", "{");
  ExpectError(LoadTokenizer(scratch_.path()).status(), StatusCode::kInvalidArgument,
              {"tokenizer_config.json:1"});
}

TEST_F(TokenizerFolder, SaveCopiesItsFiles) {
  WriteFile(scratch_ / "tokenizer_config.json", R"({"eos_token": "</s>"})");
  WriteFile(scratch_ / "merges.txt", "h e\n");
  WriteFile(scratch_ / "model.safetensors", "not the tokenizer's");
  const auto tokenizer = LoadTokenizer(scratch_.path());
  const std::string to = scratch_ / "export";
  std::filesystem::create_directory(to);
  ASSERT_TRUE((*tokenizer)->Save(to).ok());
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "merges.txt"}) {
    EXPECT_EQ(ReadFile(to + "/" + name), ReadFile(scratch_ / name));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(to), {}), 3);
  EXPECT_EQ((*LoadTokenizer(to))->fingerprint(), (*tokenizer)->fingerprint());
  WriteFile(scratch_ / "tokenizer.json", "{}");
  ExpectError((*tokenizer)->Save(to), StatusCode::kFailedPrecondition, {"has changed"});
}

TEST_F(TokenizerFolder, OtherTokenizerFilesAreNamed) {
  ScratchDirectory other;
  WriteFile(other / "t.txt", "abc");
  WriteFile(other / "vocab.json", "{}");
  ExpectError(MakeTokenizer("", other.path(), {other / "t.txt"}).status(),
              StatusCode::kUnimplemented, {"vocab.json", "save_pretrained"});
}

}  // namespace
}  // namespace spillway
