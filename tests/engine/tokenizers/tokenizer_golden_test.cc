// Token for token what Hugging Face's library gives, for five megabytes of mixed text and for
// tokenizers of every family: tests/golden/make_tokenizers.py made them and the numbers.

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "engine/base/utf8_repair.h"
#include "engine/tokenizers/pair_encoder.h"
#include "engine/tokenizers/text_decoder.h"
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

// The characters of a text from one of them on.
size_t ByteOfCharacter(absl::string_view text, size_t character) {
  size_t at = 0;
  for (; character > 0; --character) TakeCodePoint(text, &at);
  return at;
}

// What is written behind a prompt, and where pairs have the tokens of one text: as transformers has
// it (tests/golden/make_continuations.py).
TEST(TokenizerContinuations, EqualTransformers) {
  const auto families = nlohmann::json::parse(Golden("families/expected.json"));
  const auto expected = nlohmann::json::parse(Golden("continuations.json"));
  EXPECT_EQ(expected.size(), families["hashes"].size());
  const std::vector<std::string> cases = families["cases"];
  for (const auto& [name, hashes] : expected.items()) {
    const auto tokenizer = TokenizerOf(nlohmann::json::parse(Golden("families/" + name + ".json")));
    PairEncoder pair_encoder(*tokenizer);
    uint64_t state = 1;
    const auto below = [&](size_t n) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return (state >> 33) % n;
    };
    const auto text_of = [&](size_t i) { return cases[i % cases.size()]; };
    std::vector<uint32_t> texts, pairs;
    int joined = 0;
    for (size_t i = 0; i < 200; ++i) {
      std::vector<int64_t> tokens;
      for (size_t k = 0; k < (i % 8 == 7 ? 9 : 2); ++k) {
        const std::vector<int64_t> some = *tokenizer->Encode(text_of(i + k * 7));
        tokens.insert(tokens.end(), some.begin(), some.end());
      }
      const size_t cut = below(tokens.size() + 1);
      const auto written = [&](size_t begin, size_t end) {
        std::vector<int64_t> some;
        for (size_t t = begin; t < end; ++t) {
          if (!tokenizer->IsSpecial(tokens[t])) some.push_back(tokens[t]);
        }
        return some;
      };
      TextDecoder decoder(tokenizer.get());
      const absl::Status begun = decoder.Begin(written(0, cut));
      ASSERT_TRUE(begun.ok()) << begun;
      for (const int64_t token : written(cut, tokens.size())) {
        ASSERT_TRUE(decoder.Next(token).ok());
      }
      decoder.Finish();
      std::string whole = decoder.whole();
      if (tokenizer->decodes_one_by_one()) {
        // transformers counts a character that the prompt begins as one of the prompt.
        const auto chars = [&](size_t end) {
          Utf8Repair repair;
          std::string text(repair.Next(*tokenizer->Decode(written(0, end))));
          return absl::StrCat(text, repair.Finish());
        };
        const std::string all = chars(tokens.size()), before = chars(cut);
        const auto begins = [](char c) { return (c & 0xc0) != 0x80; };
        const auto count = std::count_if(before.begin(), before.end(), begins);
        if (!absl::StartsWith(all, before)) whole = all.substr(ByteOfCharacter(all, count));
        EXPECT_TRUE(absl::EndsWith(all, whole)) << name << " " << i;
      }
      for (const char c : whole) texts.push_back(static_cast<unsigned char>(c));
      texts.push_back(256);

      const std::string text = text_of(i) + text_of(i + 7);
      const auto begins = [](char c) { return (c & 0xc0) != 0x80; };
      const auto characters = std::count_if(text.begin(), text.end(), begins);
      const size_t place = ByteOfCharacter(text, below(static_cast<size_t>(characters) + 1));
      const std::string prompt = text.substr(0, place);
      std::vector<uint32_t> parts[2];
      ASSERT_TRUE(pair_encoder
                      .Encode(prompt, text.substr(place),
                              [&](const std::vector<uint32_t>& some, bool of_prompt) {
                                auto& part = parts[of_prompt ? 0 : 1];
                                part.insert(part.end(), some.begin(), some.end());
                                return absl::OkStatus();
                              })
                      .ok());
      const std::vector<int64_t> one = *tokenizer->Encode(text);
      const bool is_joined = parts[0].size() <= one.size() &&
                             std::equal(parts[0].begin(), parts[0].end(), one.begin());
      joined += is_joined;
      pairs.insert(pairs.end(), parts[0].begin(), parts[0].end());
      pairs.push_back(1u << 31);
      if (is_joined) pairs.insert(pairs.end(), parts[1].begin(), parts[1].end());
    }
    EXPECT_EQ(HashOf(texts), hashes["texts"]) << name;
    EXPECT_EQ(HashOf(pairs), hashes["pairs"]) << name;
    EXPECT_EQ(joined, hashes["joined"]) << name;
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
