#include "engine/tokenizers/word_model.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/utf8.h"
#include "engine/tokenizers/byte_alphabet.h"

namespace spillway {
namespace {

constexpr absl::string_view kNoTokenPayload = "spillway/bytes-without-token";

}  // namespace

std::vector<uint32_t> ByteFallbackTokens(const Vocabulary& vocabulary) {
  std::vector<uint32_t> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(vocabulary.Find(absl::StrFormat("<0x%02X>", byte)));
  }
  return tokens;
}

bool AppendFallback(const std::vector<uint32_t>& fallback, absl::string_view text,
                    std::vector<uint32_t>* tokens) {
  const size_t size = tokens->size();
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    tokens->push_back(fallback.empty() ? kNoToken : fallback[byte]);
    if (tokens->back() != kNoToken) continue;
    tokens->resize(size);
    return false;
  }
  return true;
}

absl::Status NoTokenError(const Vocabulary& vocabulary, absl::string_view text,
                          absl::string_view key) {
  size_t end = 0;
  const uint32_t point = TakeCodePoint(text, &end);
  std::string bytes(text.substr(0, end));
  std::string shown = DescribeCodePoint(point);
  if (const auto byte = vocabulary.writes_bytes ? FromByteAlphabet(bytes) : std::nullopt) {
    bytes = *byte;
    shown = absl::StrFormat("the byte 0x%02x", static_cast<unsigned char>(bytes.at(0)));
  }
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(
      "the tokenizer has no token for ", shown, ", and names none for the unknown (", key, ")"));
  status.SetPayload(kNoTokenPayload, absl::Cord(bytes));
  return status;
}

std::optional<std::string> BytesWithoutToken(const absl::Status& status) {
  const auto payload = status.GetPayload(kNoTokenPayload);
  if (!payload) return std::nullopt;
  return std::string(*payload);
}

WordCuts::WordCuts(const std::vector<std::string>& tokens, bool bytes)
    : bytes_(bytes), known_(bytes ? 256 : 0x110000), joined_(size_t{1} << 20) {
  for (const std::string& token : tokens) {
    uint32_t before = 0;
    size_t units = 0;
    for (size_t at = 0; at < token.size(); ++units) {
      const uint32_t unit =
          bytes ? static_cast<unsigned char>(token[at++]) : TakeCodePoint(token, &at);
      if (units > 0) joined_[Slot(before, unit)] = true;
      before = unit;
    }
    if (units == 1) known_[before] = true;
  }
}

}  // namespace spillway
