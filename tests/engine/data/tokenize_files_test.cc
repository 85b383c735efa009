#include "engine/data/tokenize_files.h"

#include <cstring>
#include <filesystem>

#include "engine/data/token_source.h"
#include "tests/engine/data/tokenizer_testing.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;
using FileTokens = std::vector<int64_t>;

class TokenizeFilesTest : public testing::Test {
 protected:
  std::string Put(const std::string& name, const std::string& text) {
    WriteFile(scratch_ / name, text);
    return scratch_ / name;
  }
  absl::StatusOr<TokenizeResult> Run(const std::vector<std::string>& files,
                                     const std::string& out) {
    return TokenizeFiles({files, tokenizer_.get(), scratch_ / out, progress_});
  }
  FileTokens Read(const std::string& name) {
    const auto source =
        TokenSource::Open({{scratch_ / name}, nullptr, scratch_.path(), 1 << 20, 0});
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return {};
    FileTokens tokens(static_cast<size_t>((*source)->size()));
    EXPECT_TRUE((*source)->Read(0, (*source)->size(), tokens.data()).ok());
    return tokens;
  }
  // Nothing but these is in the folder.
  void ExpectFiles(size_t count) {
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch_.path()), {}),
              static_cast<std::ptrdiff_t>(count));
  }

  ScratchDirectory scratch_;
  std::unique_ptr<Tokenizer> tokenizer_ = NewByteTokenizer();
  std::function<absl::Status(uint64_t, uint64_t)> progress_;
};

// 256 bytes and 70000 more tokens, the last of them "zzz...": a vocabulary over 65536.
std::unique_ptr<Tokenizer> LargeTokenizer() {
  nlohmann::json json = SmallTokenizerJson();
  for (int i = 0; i < 70000; ++i) json["model"]["vocab"]["@" + std::to_string(i)] = 256 + i;
  json["added_tokens"] = nlohmann::json::array({AddedTokenJson(70256, "<big>")});
  return TokenizerOf(json);
}

TEST_F(TokenizeFilesTest, WritesBothFormatsAsTrainReadsThem) {
  const std::vector<std::string> files = {
      Put("a.txt", "ab"), Put("b.jsonl", "{\"text\": \"cd\"}\n"), Put("c.txt", "e")};
  const FileTokens expected = {'a', 'b', 'c', 'd', '\n', 'e'};
  for (const char* out : {"o.bin", "o.npy"}) {
    const auto result = Run(files, out);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->tokens, 6);
    EXPECT_EQ(result->text_bytes, 2u + 15u + 1u);
    EXPECT_EQ(result->width_bytes, 2);
    EXPECT_EQ(Read(out), expected);
  }
  EXPECT_EQ(ReadFile(scratch_ / "o.bin").size(), 12u);
  ExpectFiles(5);
}

TEST_F(TokenizeFilesTest, RecordsEndWithTheTokenizersEndOfText) {
  nlohmann::json json = SmallTokenizerJson({{"a", "b"}});
  json["added_tokens"] = nlohmann::json::array({AddedTokenJson(257, "<end>")});
  const std::string lines =
      Put("d.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"\"}\n{\"text\": \"b<end>\"}");
  const auto tokens = [&](std::optional<uint32_t> end) {
    auto spec = ParseTokenizerJson(json.dump(), "f");
    tokenizer_ = NewPipelineTokenizer(*std::move(spec), end, {});
    EXPECT_TRUE(Run({lines}, "o.npy").ok());
    return Read("o.npy");
  };
  EXPECT_EQ(tokens(257), (FileTokens{256, 257, 257, 'b', 257, 257}));
  testing::internal::CaptureStderr();
  EXPECT_EQ(tokens(std::nullopt), (FileTokens{256, '\n', '\n', 'b', 257, '\n'}));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("no end-of-text token"));
}

TEST_F(TokenizeFilesTest, NpyHeaderIsNumpys) {
  const std::string header = NpyHeader(123456789012, 4);
  EXPECT_EQ(header.size(), kNpyHeaderBytes);
  EXPECT_EQ(header.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_THAT(header, testing::HasSubstr("{'descr': '<u4', 'fortran_order': False, 'shape': "
                                         "(123456789012,), }"));
  EXPECT_EQ(header.back(), '\n');
}

TEST_F(TokenizeFilesTest, WideTokensNeedANpyFile) {
  tokenizer_ = LargeTokenizer();
  const std::string small = Put("small.txt", "abc");
  EXPECT_TRUE(Run({small}, "small.bin").ok()) << "none over 65535 occurs";
  const std::string large = Put("large.txt", "ab<big>c");
  ExpectError(Run({large}, "large.bin").status(), StatusCode::kInvalidArgument,
              {"large.txt has the token 70256", "up to 65535", ".npy"});
  ExpectFiles(3);
  const auto result = Run({large}, "large.npy");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->width_bytes, 4);
  EXPECT_EQ(Read("large.npy"), (FileTokens{'a', 'b', 70256, 'c'}));
}

TEST_F(TokenizeFilesTest, WhatIsWrongLeavesTheOldFileAlone) {
  Put("o.bin", "old!");
  const std::string text = Put("a.txt", "ab");
  const std::string pairs = Put("p.jsonl", "\n{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  ExpectError(Run({text, pairs}, "o.bin").status(), StatusCode::kInvalidArgument,
              {"p.jsonl:2: ", "carries no loss", "to train"});
  ExpectError(Run({text}, "o.tok").status(), StatusCode::kInvalidArgument, {"o.tok", ".bin"});
  ExpectError(Run({}, "o.bin").status(), StatusCode::kInvalidArgument, {"no data"});
  ExpectError(Run({scratch_ / "o.bin"}, "o.bin").status(), StatusCode::kInvalidArgument,
              {"tokens already"});
  ExpectError(Run({scratch_ / "none.txt"}, "o.bin").status(), StatusCode::kNotFound, {"none.txt"});
  ExpectError(Run({text}, "none/o.bin").status(), StatusCode::kNotFound, {"none/o.bin"});
  ExpectError(Run({Put("e.txt", "")}, "o.bin").status(), StatusCode::kInvalidArgument, {"no text"});
  std::filesystem::create_symlink("/dev/null", scratch_ / "null.bin");
  ExpectError(Run({text}, "null.bin").status(), StatusCode::kInvalidArgument,
              {"--out: ", "null.bin is no regular file"});
  EXPECT_TRUE(std::filesystem::is_symlink(scratch_ / "null.bin"));
  progress_ = [](uint64_t done, uint64_t total) {
    EXPECT_EQ(done, total);
    return absl::CancelledError("stopped");
  };
  EXPECT_EQ(Run({text}, "o.bin").status().code(), StatusCode::kCancelled);
  EXPECT_EQ(ReadFile(scratch_ / "o.bin"), "old!");
  ExpectFiles(5);
}

}  // namespace
}  // namespace spillway
