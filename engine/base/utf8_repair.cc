#include "engine/base/utf8_repair.h"

#include <cstring>
#include <utility>

namespace spillway {
namespace {

// A sequence at the start of a text: `length` bytes that are a character, or its incomplete start
// (`cut`), or a maximal ill-formed subsequence (`bad`).
struct Sequence {
  size_t length = 0;
  bool cut = false;
  bool bad = false;
};

// Table 3-7 of the Unicode Standard: the range of the second byte excludes overlong forms,
// surrogates and code points beyond U+10FFFF.
Sequence FirstSequence(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {.length = 1};
  if (first < 0xc2 || first > 0xf4) return {.length = 1, .bad = true};
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  unsigned char low = 0x80, high = 0xbf;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {.length = i, .cut = true};
    if (byte(i) < low || byte(i) > high) return {.length = i, .bad = true};
    low = 0x80;
    high = 0xbf;
  }
  return {.length = length};
}

size_t AsciiPrefix(absl::string_view text) {
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if (word & 0x8080808080808080u) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

size_t ValidUtf8Prefix(absl::string_view text) {
  size_t at = 0;
  while (true) {
    at += AsciiPrefix(text.substr(at));
    if (at == text.size()) return at;
    const Sequence sequence = FirstSequence(text.substr(at));
    if (sequence.cut || sequence.bad) return at;
    at += sequence.length;
  }
}

void Utf8Repair::Append(absl::string_view text, bool final) {
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    out_.append(text.data(), valid);
    taken_bytes_ += valid;
    text.remove_prefix(valid);
    if (text.empty()) return;
    const Sequence sequence = FirstSequence(text);
    if (sequence.cut && !final) {
      held_ = std::string(text);
      return;
    }
    if (replaced_++ == 0) first_offset_bytes_ = taken_bytes_;
    out_.append(kReplacementCharacter.data(), kReplacementCharacter.size());
    taken_bytes_ += sequence.length;
    text.remove_prefix(sequence.length);
  }
}

absl::string_view Utf8Repair::Next(absl::string_view piece) {
  // The usual case, nothing held and nothing wrong, makes no copy.
  if (held_.empty() && ValidUtf8Prefix(piece) == piece.size()) {
    taken_bytes_ += piece.size();
    return piece;
  }
  out_.clear();
  const std::string joined = held_ + std::string(piece);
  held_.clear();
  Append(joined, false);
  return out_;
}

absl::string_view Utf8Repair::Finish() {
  out_.clear();
  const std::string rest = std::exchange(held_, std::string());
  Append(rest, true);
  taken_bytes_ = 0;
  return out_;
}

}  // namespace spillway
