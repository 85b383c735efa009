#include "engine/data/word_model.h"

#include "absl/strings/str_format.h"
#include "engine/base/utf8.h"

namespace spillway {

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
