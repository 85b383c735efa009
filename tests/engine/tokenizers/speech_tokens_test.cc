#include "engine/tokenizers/speech_tokens.h"

#include "gtest/gtest.h"
#include "tests/engine/data/tokenizer_testing.h"

namespace spillway {
namespace {

using Ids = std::vector<int64_t>;

// 256 bytes, then these.
std::unique_ptr<Tokenizer> SpeechTokenizer(const std::vector<std::string>& added) {
  nlohmann::json json = SmallTokenizerJson();
  int id = 256;
  for (const std::string& token : added)
    json["added_tokens"].push_back(AddedTokenJson(id++, token));
  return TokenizerOf(json);
}

TEST(SpeechTokens, AMultilingualModelIsToldLanguageAndTask) {
  const auto tokenizer =
      SpeechTokenizer({"<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>",
                       "<|transcribe|>", "<|notimestamps|>", "<|0.00|>"});
  const SpeechTokens tokens = SpeechTokens::Of(*tokenizer);
  EXPECT_TRUE(tokens.multilingual());
  EXPECT_EQ(tokens.translate(), 259);
  EXPECT_FALSE(SpeechTokens::Of(*tokenizer, false).multilingual());
  EXPECT_EQ(*tokens.Prefix({"de", false, false}), (Ids{258, 260, 261}));
  EXPECT_EQ(*tokens.Prefix({"German", true, false}), (Ids{258, 259, 261}));
  EXPECT_EQ(*tokens.Prefix({"english", false, true}), (Ids{257, 260}));
  const auto message = [&](const SpeechMode& task) {
    const auto prefix = tokens.Prefix(task);
    EXPECT_TRUE(absl::IsInvalidArgument(prefix.status())) << prefix.status();
    return std::string(prefix.status().message());
  };
  EXPECT_NE(message({"", false, false}).find("--language is missing"), std::string::npos);
  EXPECT_NE(message({"klingon", false, false}).find("--language klingon is unknown"),
            std::string::npos);
  EXPECT_NE(message({"fr", false, false}).find("has no <|fr|>; it has en, de"), std::string::npos);
}

TEST(SpeechTokens, AnEnglishOneKnowsNoOther) {
  const auto tokenizer = SpeechTokenizer({"<|startoftranscript|>", "<|notimestamps|>"});
  const SpeechTokens tokens = SpeechTokens::Of(*tokenizer);
  EXPECT_FALSE(tokens.multilingual());
  EXPECT_EQ(*tokens.Prefix({}), Ids{257});
  EXPECT_EQ(*tokens.Prefix({"en", false, true}), Ids{});
  EXPECT_TRUE(absl::IsInvalidArgument(tokens.Prefix({"de", false, false}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(tokens.Prefix({"", true, false}).status()));
}

TEST(SpeechTokens, OneWithoutSuchTokensSaysNothing) {
  const SpeechTokens tokens = SpeechTokens::Of(*NewByteTokenizer());
  EXPECT_EQ(*tokens.Prefix({}), Ids{});
  EXPECT_TRUE(absl::IsInvalidArgument(tokens.Prefix({"", false, true}).status()));
}

}  // namespace
}  // namespace spillway
