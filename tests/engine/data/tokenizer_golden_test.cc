// Token for token what Hugging Face's library gives, for five megabytes of mixed text and for
// tokenizers of every family: tests/golden/make_tokenizers.py made them and the numbers.

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "engine/data/text_decoder.h"
#include "engine/data/utf8_repair.h"
#include "tests/engine/data/tokenizer_testing.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

// text_chunk of the script.
class ChunkMaker {
 public:
  ChunkMaker(const nlohmann::json& snippets, size_t chunk_bytes)
      : words_(snippets["words"]), fragments_(snippets["fragments"]), chunk_bytes_(chunk_bytes) {}

  std::string Chunk(uint64_t number) {
    state_ = number + 1;
    std::string text;
    while (text.size() < chunk_bytes_) {
      std::string piece;
      if (Below(100) < 55) {
        piece = words_[Below(words_.size())] + " ";
      } else {
        piece = fragments_[Below(fragments_.size())];
      }
      const size_t repeat = Below(512);
      const int times = repeat == 0 ? 400 : repeat < 8 ? 7 : repeat < 32 ? 2 : 1;
      for (int i = 0; i < times; ++i) text += piece;
    }
    return text;
  }

 private:
  size_t Below(size_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % n;
  }

  const std::vector<std::string> words_, fragments_;
  const size_t chunk_bytes_;
  uint64_t state_ = 0;
};

std::string HashOf(const std::vector<uint32_t>& tokens) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const uint32_t token : tokens) hash = (hash ^ token) * 0x100000001b3u;
  return absl::StrFormat("%016x", hash);
}

std::string Golden(const std::string& name) {
  return ReadFile(std::string(SPILLWAY_SOURCE_DIR) + "/tests/golden/tokenizers/" + name);
}

class TokenizerGolden : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, EqualsHuggingFace) {
  const std::string name = GetParam();
  const bool prefixed = name == "gpt2_prefix_space";
  std::string json = Golden((prefixed ? "gpt2" : name) + "/tokenizer.json");
  if (prefixed) {
    ASSERT_EQ(
        absl::StrReplaceAll({{"\"add_prefix_space\": false", "\"add_prefix_space\": true"}}, &json),
        1);
  }
  auto parts = ParseTokenizerJson(json, name);
  ASSERT_TRUE(parts.ok()) << parts.status();
  const auto tokenizer = NewPipelineTokenizer(*std::move(parts), std::nullopt, {});
  const auto expected = nlohmann::json::parse(Golden("expected.json"));
  ChunkMaker chunks(nlohmann::json::parse(Golden("snippets.json")),
                    expected["chunk_bytes"].get<size_t>());

  // One encoder for all texts, and pieces of every length.
  const auto encoder = tokenizer->NewEncoder(name);
  size_t bytes = 0;
  for (size_t i = 0; i < expected[name].size(); ++i) {
    const std::string text = chunks.Chunk(i);
    std::vector<uint32_t> tokens;
    size_t piece = 1 + i * 37;
    for (size_t at = 0; at < text.size(); at += piece, piece = 1 + piece * 7 % 5000) {
      const absl::string_view part = absl::string_view(text).substr(at, piece);
      ASSERT_TRUE(encoder->Encode(part, &tokens).ok());
    }
    ASSERT_TRUE(encoder->Finish(&tokens).ok());
    ASSERT_EQ(tokens.size(), expected[name][i][0].get<size_t>()) << "chunk " << i;
    ASSERT_EQ(HashOf(tokens), expected[name][i][1].get<std::string>()) << "chunk " << i;
    bytes += text.size();
  }
  EXPECT_GT(bytes, 5u << 20);
}

// A prefix space, composed characters and stripped white space would not come back.
TEST(TokenizerGoldenDecode, GivesTheTextBack) {
  for (const char* name : {"gpt2", "llama3"}) {
    auto json = nlohmann::json::parse(Golden(std::string(name) + "/tokenizer.json"));
    for (auto& token : json["added_tokens"]) token["lstrip"] = token["rstrip"] = false;
    const auto tokenizer = TokenizerOf(json);
    ChunkMaker chunks(nlohmann::json::parse(Golden("snippets.json")), 64 << 10);
    const std::string text = chunks.Chunk(3);
    EXPECT_EQ(*tokenizer->Decode(*tokenizer->Encode(text)), text);
  }
}

// case_hash of the script.
std::string CaseHash(const Tokenizer& tokenizer, const std::vector<uint32_t>& tokens) {
  const std::vector<int64_t> ids(tokens.begin(), tokens.end());
  const EncodedText pair = tokenizer.Around(ids, ids);
  std::vector<uint32_t> all = tokens;
  for (const auto& part : {tokenizer.Around(ids, std::nullopt).tokens, pair.tokens, pair.types}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  Utf8Repair repair;
  const std::string bytes = *tokenizer.Decode(ids);
  std::string text(repair.Next(bytes));
  text += std::string(repair.Finish());
  for (const char c : text) all.push_back(static_cast<unsigned char>(c));
  return HashOf(all);
}

TEST(TokenizerFamilies, EqualHuggingFace) {
  const auto expected = nlohmann::json::parse(Golden("families/expected.json"));
  EXPECT_GE(expected["hashes"].size(), 30u);
  for (const auto& [name, hashes] : expected["hashes"].items()) {
    auto parts = ParseTokenizerJson(Golden("families/" + name + ".json"), name);
    ASSERT_TRUE(parts.ok()) << parts.status();
    const auto tokenizer = NewPipelineTokenizer(*std::move(parts), std::nullopt, {});
    const auto encoder = tokenizer->NewEncoder(name);
    for (size_t i = 0; i < hashes.size(); ++i) {
      const std::string text = expected["cases"][i];
      for (const size_t piece : {text.size() + 1, 1 + i % 7}) {
        std::vector<uint32_t> tokens;
        for (size_t at = 0; at < text.size(); at += piece) {
          const absl::string_view part = absl::string_view(text).substr(at, piece);
          ASSERT_TRUE(encoder->Encode(part, &tokens).ok());
        }
        ASSERT_TRUE(encoder->Finish(&tokens).ok());
        ASSERT_EQ(CaseHash(*tokenizer, tokens), hashes[i]) << name << " case " << i << ": " << text;
      }
    }
  }
}

// As it is generated, token by token.
TEST(TokenizerFamilies, TextsComeBackTokenByToken) {
  for (const char* name : {"llama2_legacy", "bert_uncased", "t5", "unigram_bytes"}) {
    const auto tokenizer =
        TokenizerOf(nlohmann::json::parse(Golden(std::string("families/") + name + ".json")));
    const auto tokens = *tokenizer->Encode("hello, the world \u4f60\u597d \u0401!");
    TextDecoder decoder(tokenizer.get());
    std::string text;
    for (const int64_t token : tokens) text += *decoder.Next(token);
    text += decoder.Finish();
    EXPECT_EQ(text, *tokenizer->Decode(tokens)) << name;
    EXPECT_EQ(text, decoder.whole()) << name;
    EXPECT_THAT(text, testing::StartsWith("hello, the"));
  }
}

// The bytes of a character that was given become none by one that follows: nothing after is lost.
TEST(TokenizerFamilies, AByteTooManyTakesOneCharacter) {
  const auto tokenizer = TokenizerOf(nlohmann::json::parse(Golden("families/llama2_legacy.json")));
  std::vector<int64_t> tokens = *tokenizer->Encode("the \u4f60");
  tokens.push_back(258);  // <0xFF>
  const std::vector<int64_t> end = *tokenizer->Encode("end");
  tokens.insert(tokens.end(), end.begin(), end.end());
  TextDecoder decoder(tokenizer.get());
  std::string shown;
  for (const int64_t token : tokens) shown += *decoder.Next(token);
  shown += decoder.Finish();
  EXPECT_EQ(shown, "the \u4f60\ufffd end");
  EXPECT_EQ(decoder.whole(), "the \ufffd\ufffd\ufffd\ufffd end");
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerGolden,
                         testing::Values("gpt2", "gpt2_prefix_space", "llama3", "qwen2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace spillway
