#include "engine/tokenizers/charsmap.h"

#include <cstring>

#include "absl/strings/escaping.h"
#include "engine/base/utf8_repair.h"

namespace spillway {

absl::StatusOr<Charsmap> Charsmap::Parse(absl::string_view base64) {
  std::string bytes;
  uint32_t trie_bytes = 0;
  if (!absl::Base64Unescape(base64, &bytes)) return absl::InvalidArgumentError("not base64");
  if (bytes.size() >= 4) std::memcpy(&trie_bytes, bytes.data(), 4);
  if (bytes.size() < 4 || trie_bytes % 4 != 0 || trie_bytes > bytes.size() - 4) {
    return absl::InvalidArgumentError("its trie is cut off");
  }
  Charsmap map;
  map.trie_.resize(trie_bytes / 4);
  if (trie_bytes > 0) std::memcpy(map.trie_.data(), bytes.data() + 4, trie_bytes);
  map.strings_ = bytes.substr(4 + trie_bytes);
  if (ValidUtf8Prefix(map.strings_) != map.strings_.size()) {
    return absl::InvalidArgumentError("its strings are not UTF-8");
  }
  return map;
}

std::optional<absl::string_view> Charsmap::Find(absl::string_view text) const {
  const auto unit_at = [&](uint64_t node) { return node < trie_.size() ? trie_[node] : 0; };
  const auto offset = [](uint32_t unit) { return uint64_t{unit >> 10} << ((unit & 0x200) >> 6); };
  uint64_t node = offset(unit_at(0));
  for (const char c : text) {
    const uint32_t byte = static_cast<unsigned char>(c);
    if (byte == 0) break;
    node ^= byte;
    const uint32_t unit = unit_at(node);
    if ((unit & 0x800000ff) != byte) break;
    node ^= offset(unit);
    if ((unit & 0x100) == 0) continue;
    const uint32_t at = unit_at(node) & 0x7fffffff;
    // An offset inside a character is invalid.
    if (at >= strings_.size() || (strings_[at] & 0xc0) == 0x80) return std::nullopt;
    const size_t end = strings_.find('\0', at);
    return absl::string_view(strings_).substr(at, end == std::string::npos ? end : end - at);
  }
  return std::nullopt;
}

}  // namespace spillway
