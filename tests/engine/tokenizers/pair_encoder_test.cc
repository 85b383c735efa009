#include "engine/tokenizers/pair_encoder.h"

#include "tests/engine/data/tokenizer_testing.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using PairTokenIds = std::vector<int64_t>;

struct PairTokens {
  PairTokenIds prompt, completion;
  bool operator==(const PairTokens&) const = default;
};

PairTokens EncodePairWith(PairEncoder& encoder, const std::string& prompt,
                          const std::string& completion) {
  PairTokens out;
  const auto take = [&](const std::vector<uint32_t>& tokens, bool of_prompt) {
    PairTokenIds& part = of_prompt ? out.prompt : out.completion;
    part.insert(part.end(), tokens.begin(), tokens.end());
    return absl::OkStatus();
  };
  EXPECT_EQ(encoder.Encode(prompt, completion, take), absl::OkStatus());
  return out;
}

std::unique_ptr<Tokenizer> GoldenFamily(const std::string& name) {
  return TokenizerOf(nlohmann::json::parse(ReadFile(
      std::string(SPILLWAY_SOURCE_DIR) + "/tests/golden/tokenizers/families/" + name + ".json")));
}

// Every kind that keeps a text as it is gets back what the two parts say, wherever they meet.
TEST(PairEncoder, BothTogetherSayTheText) {
  const std::string text = "Who said it?\nNobody here.  The licence, is \u4f60\u597d free!";
  for (const char* name : {"llama2_legacy", "llama2_metaspace", "llama2_gemma", "mistral", "opt",
                           "gpt_neox", "whisper", "roberta", "blenderbot"}) {
    const auto tokenizer = GoldenFamily(name);
    PairEncoder encoder(*tokenizer);
    const std::string written = *tokenizer->Decode(*tokenizer->Encode(text));
    for (size_t place = 0; place <= text.size(); ++place) {
      if (place < text.size() && (text[place] & 0xc0) == 0x80) continue;
      PairTokens pair = EncodePairWith(encoder, text.substr(0, place), text.substr(place));
      EXPECT_EQ(pair.prompt, *tokenizer->Encode(text.substr(0, place))) << name;
      PairTokenIds all = pair.prompt;
      all.insert(all.end(), pair.completion.begin(), pair.completion.end());
      EXPECT_EQ(*tokenizer->Decode(all), written) << name << " at " << place;
    }
  }
}

TEST(PairEncoder, NoSpaceIsPutBeforeACompletion) {
  for (const char* name : {"llama2_legacy", "llama2_metaspace"}) {
    const auto tokenizer = GoldenFamily(name);
    PairEncoder encoder(*tokenizer);
    for (const auto& [prompt, completion] :
         {std::pair{"Who?\n", "Nobody"}, std::pair{"Say", " yes"}, std::pair{"(", "the)"},
          std::pair{"", "alone"}, std::pair{"nothing", ""}}) {
      const std::string text = absl::StrCat(prompt, completion);
      const PairTokens pair = EncodePairWith(encoder, prompt, completion);
      PairTokenIds all = pair.prompt;
      all.insert(all.end(), pair.completion.begin(), pair.completion.end());
      EXPECT_EQ(all, *tokenizer->Encode(text)) << name << ": " << text;
    }
    // The space is the prompt's, as when a text is generated from it.
    const PairTokens apart = EncodePairWith(encoder, "Say ", "yes");
    EXPECT_EQ(apart.prompt, *tokenizer->Encode("Say "));
    PairTokenIds inside = *tokenizer->Encode("(yes");
    const PairTokenIds bracket = *tokenizer->Encode("(");
    inside.erase(inside.begin(), inside.begin() + static_cast<std::ptrdiff_t>(bracket.size()));
    EXPECT_EQ(apart.completion, inside) << name;
  }
}

// What a byte-level tokenizer makes of a completion alone is what it was, but for a prefix space.
TEST(PairEncoder, BytesAreEncodedApart) {
  nlohmann::json json = SmallTokenizerJson({{"\u0120", "a"}, {"b", "c"}});  // 256, 257
  const auto plain = TokenizerOf(json);
  PairEncoder encoder(*plain);
  EXPECT_EQ(EncodePairWith(encoder, "x ", "a bc"), (PairTokens{{'x', ' '}, {'a', ' ', 257}}));
  EXPECT_EQ(EncodePairWith(encoder, "x", " abc"), (PairTokens{{'x'}, {256, 257}}));
  EXPECT_EQ(EncodePairWith(encoder, "xb", "c"), (PairTokens{{'x', 'b'}, {'c'}}));
  json["pre_tokenizer"]["add_prefix_space"] = true;
  const auto prefixed = TokenizerOf(json);
  PairEncoder with_prefix(*prefixed);
  EXPECT_EQ(EncodePairWith(with_prefix, "x", "bc"), (PairTokens{{' ', 'x'}, {257}}));
  EXPECT_EQ(EncodePairWith(with_prefix, "x ", "a"), (PairTokens{{' ', 'x', ' '}, {'a'}}));
}

// The same encoder, whatever came before; and parts longer than a piece.
TEST(PairEncoder, PartsMayBeLong) {
  const auto tokenizer = GoldenFamily("llama2_metaspace");
  PairEncoder encoder(*tokenizer);
  std::string prompt, completion;
  for (int i = 0; i < 22000; ++i) prompt += "the question ";
  for (int i = 0; i < 28000; ++i) completion += " an answer";
  for (const bool inside : {false, true, false}) {
    prompt.resize(prompt.size() - 1);  // first a space, then letters
    const PairTokens pair = EncodePairWith(encoder, prompt, inside ? "n" + completion : completion);
    EXPECT_EQ(pair.prompt, *tokenizer->Encode(prompt));
    PairTokenIds all = pair.prompt;
    all.insert(all.end(), pair.completion.begin(), pair.completion.end());
    EXPECT_EQ(*tokenizer->Decode(all), prompt + (inside ? "n" : "") + completion);
  }
}

}  // namespace
}  // namespace spillway
