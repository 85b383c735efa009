// Any bytes as text: where a piece ends changes no token, and tokens become text again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/utf8.h"
#include "engine/data/pipeline_tokenizer.h"
#include "engine/data/tokenizer_json.h"
#include "engine/data/utf8_repair.h"
#include "io/base/log.h"

namespace {

using namespace spillway;

// 256 bytes, a few merges, added tokens of every kind.
std::unique_ptr<Tokenizer> Make(bool nfc) {
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
  if (!parts.ok()) std::abort();
  return NewPipelineTokenizer(*std::move(parts), std::nullopt, {});
}

// An encoder is used again and again, as it is for the lines of a .jsonl.
struct Subject {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<TextEncoder> encoder = tokenizer->NewEncoder("fuzz");
};

std::vector<uint32_t> Encode(TextEncoder& encoder, absl::string_view text, size_t cut) {
  std::vector<uint32_t> tokens;
  if (!encoder.Encode(text.substr(0, cut), &tokens).ok()) std::abort();
  if (!encoder.Encode(text.substr(cut), &tokens).ok()) std::abort();
  if (!encoder.Finish(&tokens).ok()) std::abort();
  return tokens;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  SetLogLevel(LogLevel::kError);  // one warning for each input otherwise
  static const Subject* const plain = new Subject{Make(false)};
  static const Subject* const nfc = new Subject{Make(true)};
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t cut = size == 0 ? 0 : data[size - 1] * size / 256;
  for (const Subject* subject : {plain, nfc}) {
    const std::vector<uint32_t> whole = Encode(*subject->encoder, text, size);
    if (whole != Encode(*subject->encoder, text, cut)) std::abort();
    const std::vector<int64_t> tokens(whole.begin(), whole.end());
    if (!subject->tokenizer->Decode(tokens).ok()) std::abort();
  }
  return 0;
}
