// Any bytes as text: where a piece ends changes no token, and tokens become text again.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/utf8.h"
#include "engine/tokenizers/pipeline_tokenizer.h"
#include "engine/tokenizers/tokenizer_json.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {
namespace {

// 256 bytes, a few merges, added tokens of every kind.
std::unique_ptr<Tokenizer> MakeTokenizerOf(bool nfc) {
  std::string vocabulary;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    std::string token;
    AppendUtf8(printable ? byte : next++, &token);
    if (token == "\"" || token == "\\") token = "\\" + token;
    absl::StrAppend(&vocabulary, "\"", token, "\": ", byte, ", ");
  }
  const std::string json = absl::StrCat(
      R"({"normalizer": )", nfc ? R"({"type": "NFC"})" : "null",
      R"(, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "model": {"vocab": {)",
      vocabulary, R"("ab": 256, "abab": 257}, "merges": ["a b", "ab ab"]}, "added_tokens": [
      {"id": 258, "content": "<s>", "lstrip": true, "normalized": false},
      {"id": 259, "content": "<r", "rstrip": true, "normalized": false},
      {"id": 260, "content": "one", "single_word": true},
      {"id": 261, "content": "\n\n", "normalized": false}]})");
  auto parts = ParseTokenizerJson(json, "fuzz");
  SPILLWAY_CHECK(parts.ok());
  return NewPipelineTokenizer(*std::move(parts), std::nullopt, {});
}

// An encoder is used again and again, as it is for the lines of a .jsonl.
struct EncodeSubject {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<TextEncoder> encoder = tokenizer->NewEncoder("fuzz");
};

std::vector<uint32_t> EncodeCut(TextEncoder& encoder, absl::string_view text, size_t cut) {
  std::vector<uint32_t> tokens;
  SPILLWAY_CHECK(encoder.Encode(text.substr(0, cut), &tokens).ok());
  SPILLWAY_CHECK(encoder.Encode(text.substr(cut), &tokens).ok());
  SPILLWAY_CHECK(encoder.Finish(&tokens).ok());
  return tokens;
}

}  // namespace

SPILLWAY_FUZZ(tokenizer_encode, 2000) {
  static const EncodeSubject* const plain = new EncodeSubject{MakeTokenizerOf(false)};
  static const EncodeSubject* const nfc = new EncodeSubject{MakeTokenizerOf(true)};
  for (const EncodeSubject* subject : {plain, nfc}) {
    const std::vector<uint32_t> whole = EncodeCut(*subject->encoder, input, input.size());
    SPILLWAY_CHECK(whole == EncodeCut(*subject->encoder, input, SomewhereIn(input)));
    const std::vector<int64_t> tokens(whole.begin(), whole.end());
    SPILLWAY_CHECK(subject->tokenizer->Decode(tokens).ok());
  }
  return true;
}

}  // namespace spillway
