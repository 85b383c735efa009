#include "engine/tokenizers/tokenizer.h"

#include "engine/data/char_tokenizer.h"
#include "engine/data/load_tokenizer.h"
#include "engine/machine/memory_limits.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;
using Tokens = std::vector<int64_t>;

class TokenizerTest : public testing::Test {
 protected:
  std::unique_ptr<Tokenizer> Chars(const std::string& text) {
    WriteFile(scratch_ / "text.txt", text);
    auto tokenizer = NewCharTokenizer({scratch_ / "text.txt"});
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return *std::move(tokenizer);
  }

  ScratchDirectory scratch_;
};

TEST_F(TokenizerTest, CharsAreTheSortedCodePointsOfTheText) {
  const auto tokenizer = Chars("b\u00e9a\nb\U0001F600");
  EXPECT_EQ(tokenizer->vocabulary_size(), 5);
  EXPECT_EQ(*tokenizer->Encode("\nab\u00e9\U0001F600"), (Tokens{0, 1, 2, 3, 4}));
  EXPECT_EQ(*tokenizer->Decode(Tokens{4, 3, 0}), "\U0001F600\u00e9\n");
  ExpectError(tokenizer->Decode(Tokens{5}).status(), StatusCode::kInvalidArgument, {"token 5"});
  ExpectError(tokenizer->Encode("abz").status(), StatusCode::kInvalidArgument,
              {"U+007A 'z' at byte 2", "vocabulary of 5"});
}

TEST_F(TokenizerTest, CharsOfJsonlHaveTheNewlineThatEndsEachText) {
  WriteFile(scratch_ / "d.jsonl",
            "{\"text\": \"ba\"}\n{\"prompt\": \"c\", \"completion\": \"\\u00e9\"}\n");
  const auto tokenizer = NewCharTokenizer({scratch_ / "d.jsonl"});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(*(*tokenizer)->Decode(Tokens{0, 1, 2, 3, 4}), "\nabc\u00e9");
  EXPECT_EQ((*MakeTokenizer("", scratch_ / "", {scratch_ / "d.jsonl"}))->vocabulary_size(), 5);
}

TEST_F(TokenizerTest, PiecesMayCutACharacter) {
  const std::string text = "\u00e9\U0001F600a";
  const auto tokenizer = Chars(text);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const auto encoder = tokenizer->NewEncoder("t");
    std::vector<uint32_t> tokens;
    ASSERT_TRUE(encoder->Encode(text.substr(0, cut), &tokens).ok());
    ASSERT_TRUE(encoder->Encode(text.substr(cut), &tokens).ok());
    ASSERT_TRUE(encoder->Finish(&tokens).ok());
    EXPECT_EQ(tokens, (std::vector<uint32_t>{1, 2, 0}));
  }
}

// A long text is encoded in pieces, which end within characters.
TEST_F(TokenizerTest, TheBeginningOfALongTextIsCountedToItsEnd) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += i % 3 == 0 ? "\u00e9" : "\u20ac";
  const auto tokenizer = Chars(text);
  const auto whole = tokenizer->Encode(text);
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(whole->size(), 200'000u);
  for (size_t i = 0; i < whole->size(); ++i) ASSERT_EQ((*whole)[i], i % 3 == 0 ? 0 : 1) << i;
  const auto beginning = tokenizer->EncodeBeginning(text, 5);
  ASSERT_TRUE(beginning.ok()) << beginning.status();
  EXPECT_EQ(beginning->tokens, (Tokens{0, 1, 1, 0, 1}));
  EXPECT_EQ(beginning->all, 200'000);
}

TEST_F(TokenizerTest, ATokenizerThatTakesMoreMemoryThanThereIsIsRefusedByItsSize) {
  const std::string directory = scratch_ / "";
  EXPECT_EQ(TokenizerDirectory("", "model"), "model");
  EXPECT_EQ(TokenizerDirectory("model", "model"), "model");
  EXPECT_EQ(TokenizerDirectory("other", "model"), "other");
  EXPECT_EQ(TokenizerDirectory("bytes", "model"), "");
  EXPECT_TRUE(CheckTokenizerMemory("", 0).ok());
  EXPECT_TRUE(CheckTokenizerMemory(directory, 0).ok()) << "there is none";
  WriteFile(scratch_ / "tokenizer.json", std::string(1 << 20, ' '));
  EXPECT_TRUE(CheckTokenizerMemory(directory, 64 << 20).ok());
  const absl::Status refused = CheckTokenizerMemory(directory, 1 << 20);
  EXPECT_EQ(ExitCodeOf(refused), 3);
  ExpectError(refused, StatusCode::kResourceExhausted,
              {"tokenizer.json", "1 MiB", "--host-memory", "as tokens"});
  WriteFile(scratch_ / "bytes.json", "{}");
  EXPECT_TRUE(CheckTokenizerMemory(directory, 1 << 20).ok()) << "it is not read";
}

TEST_F(TokenizerTest, InvalidUtf8IsNamedWithItsOffset) {
  const struct {
    const char* text;
    const char* offset;
  } cases[] = {{"ab\xff", "byte 2"},           {"a\xc3", "byte 1"},
               {"\xc0\x80", "byte 0"},         {"a\xed\xa0\x80", "byte 1"},
               {"\xf4\x90\x80\x80", "byte 0"}, {"\u00e9\x80", "byte 2"},
               {"x\xe2\x82x", "byte 1"},       {"\xe0\x80\x80", "byte 0"}};
  for (const auto& c : cases) {
    WriteFile(scratch_ / "bad.txt", c.text);
    ExpectError(NewCharTokenizer({scratch_ / "bad.txt"}).status(), StatusCode::kInvalidArgument,
                {"bad.txt", "invalid UTF-8", c.offset});
  }
}

TEST_F(TokenizerTest, VocabularyIsSavedAndLoaded) {
  const auto tokenizer = Chars("hello \u00e9");
  ASSERT_TRUE(tokenizer->Save(scratch_ / "").ok());
  const auto loaded = LoadTokenizer(scratch_ / "");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->fingerprint(), tokenizer->fingerprint());
  EXPECT_EQ(*(*loaded)->Encode("hello"), *tokenizer->Encode("hello"));
  EXPECT_NE(Chars("other")->fingerprint(), tokenizer->fingerprint());
}

TEST_F(TokenizerTest, BadVocabularyFilesAreRefused) {
  for (const char* json : {"[]", "{}", "{\"kind\":\"chars\",\"version\":2,\"code_points\":[1]}",
                           "{\"kind\":\"chars\",\"version\":1,\"code_points\":[]}",
                           "{\"kind\":\"chars\",\"version\":1,\"code_points\":[2,1]}",
                           "{\"kind\":\"chars\",\"version\":1,\"code_points\":[1,1]}",
                           "{\"kind\":\"chars\",\"version\":1,\"code_points\":[55296]}",
                           "{\"kind\":\"chars\",\"version\":1,\"code_points\":[1114112]}",
                           "{\"kind\":\"chars\",\"version\":1,\"code_points\":[\"a\"]}", "x"}) {
    WriteFile(scratch_ / "chars.json", json);
    ExpectError(LoadTokenizer(scratch_ / "").status(), StatusCode::kInvalidArgument,
                {"chars.json"});
  }
}

TEST_F(TokenizerTest, BytesTakeEveryByte) {
  const auto tokenizer = NewByteTokenizer();
  EXPECT_EQ(tokenizer->vocabulary_size(), 256);
  EXPECT_EQ(*tokenizer->Encode("a\xff"), (Tokens{97, 255}));
  EXPECT_EQ(*tokenizer->Decode(Tokens{97, 255}), "a\xff");
  EXPECT_FALSE(tokenizer->Decode(Tokens{256}).ok());
  ASSERT_TRUE(tokenizer->Save(scratch_ / "").ok());
  EXPECT_EQ((*LoadTokenizer(scratch_ / ""))->kind(), "bytes");
}

TEST_F(TokenizerTest, ChoiceFollowsTheFlag) {
  WriteFile(scratch_ / "t.txt", "abc");
  const std::vector<std::string> data = {scratch_ / "t.txt"};
  const std::string model = scratch_ / "";
  EXPECT_EQ((*MakeTokenizer("bytes", model, data))->kind(), "bytes");
  EXPECT_EQ((*MakeTokenizer("chars", model, data))->vocabulary_size(), 3);
  EXPECT_EQ((*MakeTokenizer("", model, data))->kind(), "chars");
  EXPECT_EQ(*MakeTokenizer("", model, {"x.bin"}), nullptr);
  EXPECT_EQ(MakeTokenizer("model", model, data).status().code(), StatusCode::kNotFound);
  ExpectError(MakeTokenizer("chars", model, {"x.bin"}).status(), StatusCode::kInvalidArgument,
              {"--tokenizer chars"});
  ExpectError(MakeTokenizer("gpt2", model, data).status(), StatusCode::kInvalidArgument,
              {"--tokenizer gpt2"});
  ASSERT_TRUE(NewByteTokenizer()->Save(model).ok());
  EXPECT_EQ((*MakeTokenizer("", model, data))->kind(), "bytes") << "the model's own";
  EXPECT_EQ((*MakeTokenizer(model, "", data))->kind(), "bytes") << "a directory";
}

}  // namespace
}  // namespace spillway
