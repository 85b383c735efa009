#include "engine/data/token_source.h"

#include <csignal>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "engine/base/stop_signal.h"
#include "engine/data/char_tokenizer.h"
#include "tests/engine/data/tokenizer_testing.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;
using SourceTokens = std::vector<int64_t>;

// A .npy file of version 1 with this dictionary and data.
std::string Npy(const std::string& dictionary, const std::string& data, char version = 1) {
  std::string file = "\x93NUMPY";
  file += version;
  file += '\0';
  file += static_cast<char>(dictionary.size() & 0xff);
  file += static_cast<char>(dictionary.size() >> 8);
  if (version > 1) file += std::string(2, '\0');
  return file + dictionary + data;
}

std::string Dictionary(const std::string& descr, const std::string& shape) {
  return absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, ", }\n");
}

template <typename T>
std::string Raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class TokenSourceTest : public testing::Test {
 protected:
  std::string Put(const std::string& name, const std::string& bytes) {
    WriteFile(scratch_ / name, bytes);
    return scratch_ / name;
  }
  absl::StatusOr<std::unique_ptr<TokenSource>> Open(const std::vector<std::string>& files,
                                                    int64_t window_tokens = 0) {
    return TokenSource::Open(
        {files, tokenizer_.get(), scratch_.path(), vocabulary_, window_tokens});
  }
  SourceTokens All(const std::vector<std::string>& files) {
    const auto source = Open(files);
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return {};
    SourceTokens tokens(static_cast<size_t>((*source)->size()));
    EXPECT_TRUE((*source)->Read(0, (*source)->size(), tokens.data()).ok());
    return tokens;
  }

  ScratchDirectory scratch_;
  std::unique_ptr<Tokenizer> tokenizer_ = NewByteTokenizer();
  int64_t vocabulary_ = 256;
};

TEST_F(TokenSourceTest, ReadsEveryKind) {
  const SourceTokens expected = {1, 2, 250};
  EXPECT_EQ(All({Put("t.txt", "\x01\x02\xfa")}), expected);
  EXPECT_EQ(All({Put("t.bin", Raw<uint16_t>({1, 2, 250}))}), expected);
  EXPECT_EQ(All({Put("1.npy", Npy(Dictionary("|u1", "(3,)"), Raw<uint8_t>({1, 2, 250})))}),
            expected);
  EXPECT_EQ(All({Put("2.npy", Npy(Dictionary("<u2", "(3,)"), Raw<uint16_t>({1, 2, 250})))}),
            expected);
  EXPECT_EQ(All({Put("3.npy", Npy(Dictionary("<i2", "(3,)"), Raw<int16_t>({1, 2, 250})))}),
            expected);
  EXPECT_EQ(All({Put("4.npy", Npy(Dictionary("<i4", "(3,)"), Raw<int32_t>({1, 2, 250})))}),
            expected);
  EXPECT_EQ(All({Put("5.npy", Npy(Dictionary("<i8", "(3,)"), Raw<int64_t>({1, 2, 250}), 2))}),
            expected);
  EXPECT_EQ(All({Put("6.npy", Npy(Dictionary("<u8", "(3,)"), Raw<uint64_t>({1, 2, 250}), 3))}),
            expected);
}

TEST_F(TokenSourceTest, FilesFollowOneAnother) {
  const std::vector<std::string> files = {Put("a.txt", "ab"), Put("b.bin", Raw<uint16_t>({7})),
                                          Put("c.txt", "cde")};
  EXPECT_EQ(All(files), (SourceTokens{'a', 'b', 7, 'c', 'd', 'e'}));
  const auto source = Open(files);
  for (int64_t first = 0; first <= 6; ++first) {
    for (int64_t count = 0; first + count <= 6; ++count) {
      SourceTokens out(static_cast<size_t>(count));
      ASSERT_TRUE((*source)->Read(first, count, out.data()).ok());
      const SourceTokens all = {'a', 'b', 7, 'c', 'd', 'e'};
      EXPECT_EQ(out, SourceTokens(all.begin() + first, all.begin() + first + count));
    }
  }
}

TEST_F(TokenSourceTest, LongTextGoesThroughInPieces) {
  std::string text;
  for (int i = 0; i < 700'000; ++i) text += static_cast<char>(i * 7 % 256);
  const SourceTokens tokens = All({Put("long.txt", text)});
  ASSERT_EQ(tokens.size(), text.size());
  for (size_t i = 0; i < text.size(); i += 997) {
    EXPECT_EQ(tokens[i], static_cast<unsigned char>(text[i]));
  }
}

TEST_F(TokenSourceTest, LeavesNoFileBehindEvenWhileOpen) {
  const auto source = Open({Put("t.txt", "abc")});
  ASSERT_TRUE(source.ok());
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path())) {
    EXPECT_EQ(entry.path().filename(), "t.txt");
    ++files;
  }
  EXPECT_EQ(files, 1u);
}

TEST_F(TokenSourceTest, FingerprintIsOfTheTokens) {
  const auto fingerprint = [&](const std::vector<std::string>& files) {
    return (*Open(files))->fingerprint();
  };
  const std::string text = Put("t.txt", "abc");
  EXPECT_EQ(fingerprint({text}), fingerprint({Put("t.bin", Raw<uint16_t>({'a', 'b', 'c'}))}));
  EXPECT_NE(fingerprint({text}), fingerprint({Put("u.txt", "abd")}));
}

TEST_F(TokenSourceTest, PromptsCarryNoLossAndLinesBeginSamples) {
  const std::vector<std::string> files = {
      Put("a.txt", "x"),
      Put("b.jsonl",
          "{\"prompt\": \"ab\", \"completion\": \"c\"}\n\n{\"text\": \"d\"}\n"
          "{\"prompt\": \"e\", \"completion\": \"\"}"),
      Put("c.bin", Raw<uint16_t>({7}))};
  const SourceTokens expected = {'x', 'a', 'b', 'c', '\n', 'd', '\n', 'e', '\n', 7};
  constexpr uint8_t kBegin = kMarkBegin, kNo = kMarkWithoutLoss;
  const std::vector<uint8_t> expected_marks = {0, kBegin | kNo, kNo, 0, 0, kBegin,
                                               0, kBegin | kNo, 0,   0};
  const auto source = Open(files);
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->size(), 10);
  for (int64_t first = 0; first <= 10; ++first) {
    for (int64_t count = 0; first + count <= 10; ++count) {
      SourceTokens out(static_cast<size_t>(count));
      std::vector<uint8_t> marks(out.size(), 99);
      ASSERT_TRUE((*source)->Read(first, count, out.data(), marks.data()).ok());
      EXPECT_EQ(out, SourceTokens(expected.begin() + first, expected.begin() + first + count));
      EXPECT_EQ(marks, std::vector<uint8_t>(expected_marks.begin() + first,
                                            expected_marks.begin() + first + count));
    }
  }
}

TEST_F(TokenSourceTest, PromptAndCompletionAreEncodedApart) {
  nlohmann::json json = SmallTokenizerJson({{"a", "b"}});
  json["added_tokens"] = nlohmann::json::array({AddedTokenJson(257, "<end>")});
  auto spec = ParseTokenizerJson(json.dump(), "f");
  tokenizer_ = NewPipelineTokenizer(*std::move(spec), 257, {});
  vocabulary_ = 258;
  EXPECT_EQ(All({Put("1.jsonl", R"({"text": "ab"})")}), (SourceTokens{256, 257}));
  EXPECT_EQ(All({Put("2.jsonl", R"({"prompt": "a", "completion": "b"})")}),
            (SourceTokens{'a', 'b', 257}));
}

// As prompts do that are to be answered; a text goes on as it is, and so does a conversation.
TEST_F(TokenSourceTest, LinesBeginWithWhatTheTokenizerPutsBeforeAText) {
  nlohmann::json json = SmallTokenizerJson({{"a", "b"}});
  json["added_tokens"] =
      nlohmann::json::array({AddedTokenJson(257, "<end>"), AddedTokenJson(258, "<s>")});
  json["post_processor"] = nlohmann::json::parse(R"({
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [258], "tokens": ["<s>"]}}})");
  tokenizer_ = NewPipelineTokenizer(*ParseTokenizerJson(json.dump(), "f"), 257, {});
  vocabulary_ = 259;
  EXPECT_EQ(All({Put("1.txt", "ab")}), (SourceTokens{256}));
  const auto source = Open({Put("1.jsonl",
                                "{\"text\": \"ab\"}\n"
                                "{\"prompt\": \"a\", \"completion\": \"b\"}\n"
                                "{\"prompt\": \"\", \"completion\": \"c\"}")});
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->size(), 10);
  SourceTokens tokens(10);
  std::vector<uint8_t> marks(10);
  ASSERT_TRUE((*source)->Read(0, 10, tokens.data(), marks.data()).ok());
  EXPECT_EQ(tokens, (SourceTokens{258, 256, 257, 258, 'a', 'b', 257, 258, 'c', 257}));
  constexpr uint8_t kBegin = kMarkBegin, kNo = kMarkWithoutLoss;
  EXPECT_EQ(marks,
            (std::vector<uint8_t>{kBegin, 0, 0, kBegin | kNo, kNo, 0, 0, kBegin | kNo, 0, 0}));
}

// {"<end>": 257, "<s>": 258, "<|im_end|>": 259}; "<s>" is put before texts.
nlohmann::json TalkingTokenizerJson() {
  nlohmann::json json = SmallTokenizerJson({{"a", "b"}});
  json["added_tokens"] =
      nlohmann::json::array({AddedTokenJson(257, "<end>"), AddedTokenJson(258, "<s>"),
                             AddedTokenJson(259, "<|im_end|>")});
  json["post_processor"] = nlohmann::json::parse(R"({
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [258], "tokens": ["<s>"]}}})");
  return json;
}

TEST_F(TokenSourceTest, KnowsWhichEndsAreLearnt) {
  auto chat = ChatFormat::Parse(
      "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
      "{% if add_generation_prompt %}assistant: {% endif %}",
      "t.jinja", JinjaValue::object());
  ASSERT_TRUE(chat.ok()) << chat.status();
  const nlohmann::json json = TalkingTokenizerJson();
  tokenizer_ =
      NewPipelineTokenizer(*ParseTokenizerJson(json.dump(), "f"), 257, {}, std::move(chat));
  vocabulary_ = 260;
  const std::string talk = Put(
      "c.jsonl",
      R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "b"}]})");
  const std::string pair = Put("p.jsonl", R"({"prompt": "a<|im_end|>", "completion": "b"})");
  using Ends = std::vector<int64_t>;
  EXPECT_EQ((*Open({talk}))->learnt_ends(), (Ends{259}));
  EXPECT_EQ((*Open({pair}))->learnt_ends(), (Ends{257})) << "the prompt's is not learnt";
  EXPECT_EQ((*Open({pair, talk}))->learnt_ends(), (Ends{257, 259}));
  EXPECT_EQ((*Open({Put("t.txt", "a<end>b")}))->learnt_ends(), (Ends{257}));
  EXPECT_EQ((*Open({Put("t.txt", "ab")}))->learnt_ends(), Ends{});
}

TEST_F(TokenSourceTest, WarnsOfTokensThatAreThereTwice) {
  tokenizer_ =
      NewPipelineTokenizer(*ParseTokenizerJson(TalkingTokenizerJson().dump(), "f"), 257, {});
  vocabulary_ = 260;
  const auto said = [&](const std::string& lines) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(Open({Put("w.jsonl", lines)}).ok());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said("{\"text\": \"a<s>\"}\n{\"prompt\": \"<end>\", \"completion\": \"<s>\"}"), "");
  using testing::HasSubstr;
  EXPECT_THAT(said("{\"text\": \"<s>a\"}\n{\"text\": \"a\"}"),
              HasSubstr("1 of 2 texts begin with <s>, which is put before each text as well"));
  EXPECT_THAT(said(R"({"prompt": "<s>a", "completion": "b"})"), HasSubstr("1 of 1 texts begin"));
  EXPECT_THAT(said(R"({"prompt": "a", "completion": "b<end>"})"),
              HasSubstr("1 of 1 texts end with <end>, which is put behind each text"));
  EXPECT_THAT(said(R"({"text": "<end>"})"), HasSubstr("texts end with <end>"));
}

TEST_F(TokenSourceTest, OnlyTheAssistantsTurnsCarryLoss) {
  nlohmann::json json = SmallTokenizerJson({{"a", "b"}, {"!", "c"}});
  auto chat = ChatFormat::Parse(
      "{% for m in messages %}{{ m.role[0] }}{{ m.content }}!{% endfor %}"
      "{% if add_generation_prompt %}a{% endif %}",
      "t.jinja", JinjaValue::object());
  ASSERT_TRUE(chat.ok()) << chat.status();
  tokenizer_ = NewPipelineTokenizer(*ParseTokenizerJson(json.dump(), "f"), 0, {}, std::move(chat));
  vocabulary_ = 258;
  const auto source = Open({Put(
      "c.jsonl",
      R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "b"}, )"
      R"({"role": "user", "content": "y"}, {"role": "assistant", "content": ""}]})")});
  ASSERT_TRUE(source.ok()) << source.status();
  SourceTokens tokens(10);
  std::vector<uint8_t> marks(10);
  ASSERT_EQ((*source)->size(), 10);
  ASSERT_TRUE((*source)->Read(0, 10, tokens.data(), marks.data()).ok());
  // "ab" is one token, which lies across the turn's beginning; nothing is put behind.
  EXPECT_EQ(tokens, (SourceTokens{'u', 'x', '!', 256, '!', 'u', 'y', '!', 'a', '!'}));
  EXPECT_EQ(marks, (std::vector<uint8_t>{1 | kMarkBegin, 1, 1, 0, 0, 1, 1, 1, 1, 0}));
}

TEST_F(TokenSourceTest, APromptThatIsMessagesCarriesNoLoss) {
  auto chat = ChatFormat::Parse(
      "{% for m in messages %}{{ m.role[0] }}{{ m.content }}!{% endfor %}"
      "{% if add_generation_prompt %}a{% endif %}",
      "t.jinja", JinjaValue::object());
  ASSERT_TRUE(chat.ok()) << chat.status();
  tokenizer_ = NewPipelineTokenizer(*ParseTokenizerJson(SmallTokenizerJson().dump(), "f"), 0, {},
                                    std::move(chat));
  const auto source = Open({Put(
      "c.jsonl",
      R"({"prompt": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "b"}, )"
      R"({"role": "user", "content": "y"}], "completion": [{"role": "assistant", "content": "c"}]})")});
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->size(), 12);
  SourceTokens tokens(12);
  std::vector<uint8_t> marks(12);
  ASSERT_TRUE((*source)->Read(0, 12, tokens.data(), marks.data()).ok());
  EXPECT_EQ(tokens, (SourceTokens{'u', 'x', '!', 'a', 'b', '!', 'u', 'y', '!', 'a', 'c', '!'}));
  EXPECT_EQ(marks, (std::vector<uint8_t>{1 | kMarkBegin, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}));
}

TEST_F(TokenSourceTest, AByteOrderMarkIsNoText) {
  EXPECT_EQ(All({Put("a.txt",
                     "\xef\xbb\xbf"
                     "ab")}),
            (SourceTokens{'a', 'b'}));
}

// GPT-2 cuts "\n\n" in another way where a text ends with it: by the turn's beginning alone it
// can't be told which tokens are before.
TEST_F(TokenSourceTest, ATokenIsOfTheTurnInWhichItsBytesLie) {
  auto chat = ChatFormat::Parse(
      "{% for m in messages %}{{ m.role[0] }}\n\n{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}a\n\n{% endif %}",
      "t.jinja", JinjaValue::object());
  ASSERT_TRUE(chat.ok()) << chat.status();
  tokenizer_ = NewPipelineTokenizer(
      *ParseTokenizerJson(SmallTokenizerJson({{"\u010a", "\u010a"}}).dump(), "f"), 0, {},
      std::move(chat));
  vocabulary_ = 257;
  const auto source = Open({Put(
      "c.jsonl",
      R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "b"}]})")});
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->size(), 8);
  SourceTokens tokens(8);
  std::vector<uint8_t> marks(8);
  ASSERT_TRUE((*source)->Read(0, 8, tokens.data(), marks.data()).ok());
  EXPECT_EQ(tokens, (SourceTokens{'u', '\n', '\n', 'x', 'a', '\n', '\n', 'b'}));
  EXPECT_EQ(marks, (std::vector<uint8_t>{1 | kMarkBegin, 1, 1, 1, 1, 1, 1, 0}));
}

TEST_F(TokenSourceTest, FingerprintIsOfTheLossToo) {
  const auto fingerprint = [&](const char* name, const char* line) {
    return (*Open({Put(name, line)}))->fingerprint();
  };
  const std::string all = fingerprint("1.jsonl", R"({"text": "abc"})");
  EXPECT_EQ(all, fingerprint("1.txt", "abc\n")) << "the tokens are the same";
  const std::string one = fingerprint("2.jsonl", R"({"prompt": "a", "completion": "bc"})");
  EXPECT_NE(one, all);
  EXPECT_NE(one, fingerprint("3.jsonl", R"({"prompt": "ab", "completion": "c"})"));
}

TEST_F(TokenSourceTest, SomeTokenCarriesLoss) {
  tokenizer_ = *NewCharTokenizer({Put("v.txt", "ab")});  // no newline, so nothing ends a text
  ExpectError(Open({Put("p.jsonl", R"({"prompt": "a", "completion": ""})")}).status(),
              StatusCode::kInvalidArgument, {"p.jsonl", "no token carries loss"});
}

TEST_F(TokenSourceTest, NamesWhatIsWrong) {
  vocabulary_ = 300;
  const struct {
    std::string file;
    const char* why;
  } cases[] = {
      {Put("empty.txt", ""), "is empty"},
      {Put("empty.bin", ""), "is empty"},
      {Put("empty.npy", Npy(Dictionary("<u2", "(0,)"), "")), "is empty"},
      {Put("odd.bin", "abc"), "3 bytes, an odd number"},
      {Put("x.csv", "1,2"), ".txt (text), .jsonl"},
      {Put("big.bin", Raw<uint16_t>({1, 2, 300})),
       "token 300 at position 2 is outside the model's vocabulary of 300"},
      {Put("minus.npy", Npy(Dictionary("<i4", "(2,)"), Raw<int32_t>({5, -1}))),
       "token -1 at position 1"},
      {Put("huge.npy", Npy(Dictionary("<u8", "(1,)"), Raw<uint64_t>({UINT64_MAX}))), "position 0"},
      {Put("float.npy", Npy(Dictionary("<f4", "(1,)"), "abcd")), "its type is '<f4'"},
      {Put("be.npy", Npy(Dictionary(">u2", "(1,)"), "ab")), "big-endian"},
      {Put("object.npy", Npy(Dictionary("|O", "(1,)"), "ab")), "its type is '|O'"},
      {Put("2d.npy", Npy(Dictionary("<u2", "(1, 1)"), "ab")), "2 dimensions"},
      {Put("0d.npy", Npy(Dictionary("<u2", "()"), "ab")), "0 dimensions"},
      {Put("short.npy", Npy(Dictionary("<u2", "(3,)"), "abcd")), "but 4 bytes follow"},
      {Put("long.npy", Npy(Dictionary("<u2", "(1,)"), "abcd")), "but 4 bytes follow"},
      {Put("over.npy", Npy(Dictionary("<u8", "(9223372036854775807,)"), "")), "bytes follow"},
      {Put("magic.npy", "NUMPY\x01"), "does not begin with"},
      {Put("cut.npy", std::string("\x93NUMPY\x01\x00", 8)), "cut short"},
      {Put("cut2.npy", std::string("\x93NUMPY\x02\x00\x01\x00", 10)), "cut short"},
      {Put("version.npy", Npy(Dictionary("<u2", "(1,)"), "ab", 9)), "version 9"},
      {Put("header.npy", std::string("\x93NUMPY\x01\x00\xff\xff{}", 12)), "header has 65535"},
      {Put("dict.npy", Npy("{'descr': '<u2', 'shape': (1,)}", "ab")), "its header is not"},
      {Put("twice.npy", Npy("{'descr': '<u2', 'descr': '<u2'}", "ab")), "its header is not"},
      {Put("code.npy", Npy("__import__('os')", "ab")), "its header is not"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.file);
    ExpectError(Open({c.file}).status(), StatusCode::kInvalidArgument, {c.file, c.why});
  }
  ExpectError(Open({scratch_ / "none.bin"}).status(), StatusCode::kNotFound, {"none.bin"});
  ExpectError(Open({Put("x.jsonl", "{}")}).status(), StatusCode::kInvalidArgument, {"x.jsonl:1"});
  ExpectError(Open({Put("y.jsonl", "\n\n")}).status(), StatusCode::kInvalidArgument,
              {"y.jsonl holds no text"});
  tokenizer_ = nullptr;
  ExpectError(Open({Put("t.txt", "abc")}).status(), StatusCode::kInvalidArgument, {"--tokenizer"});
}

TEST_F(TokenSourceTest, SaysHowManyTokensAWindowNeeds) {
  const std::string file = Put("t.txt", "abcd");
  EXPECT_TRUE(Open({file}, 3).ok());
  ExpectError(Open({file}, 4).status(), StatusCode::kInvalidArgument,
              {"4 tokens", "needs 5", "--seq-len"});
}

TEST_F(TokenSourceTest, TheTokenizerMustFitTheModel) {
  vocabulary_ = 255;
  ExpectError(Open({Put("t.txt", "a")}).status(), StatusCode::kInvalidArgument,
              {"256 tokens", "vocabulary has 255"});
}

TEST_F(TokenSourceTest, ASignalEndsTheReading) {
  const std::string text = Put("t.txt", "abcd"), tokens = Put("t.bin", Raw<uint16_t>({1, 2}));
  const StopSignal signals;
  StopSignal::Receive(SIGTERM);
  for (const std::string& file : {text, tokens, Put("t.jsonl", "{\"text\": \"a\"}\n")}) {
    ExpectError(Open({file}).status(), StatusCode::kCancelled, {"stopped by SIGTERM"});
  }
  ExpectError(NewCharTokenizer({text}).status(), StatusCode::kCancelled, {"stopped by SIGTERM"});
}

}  // namespace
}  // namespace spillway
