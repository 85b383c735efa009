#include "engine/measures/text_words.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

namespace spillway {
namespace {

// The code point at `*at`, which is advanced behind it.
uint32_t NextCodePoint(absl::string_view text, int64_t* at) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(text.data());
  const auto size = static_cast<int64_t>(text.size());
  UChar32 code_point = 0;
  U8_NEXT_OR_FFFD(bytes, *at, size, code_point);
  return static_cast<uint32_t>(code_point);
}

}  // namespace

std::vector<uint32_t> CodePointsOf(absl::string_view text) {
  std::vector<uint32_t> all;
  all.reserve(text.size());
  for (int64_t at = 0; at < static_cast<int64_t>(text.size());) {
    all.push_back(NextCodePoint(text, &at));
  }
  return all;
}

bool IsWhiteSpace(uint32_t code_point) {
  return (code_point >= 0x1c && code_point <= 0x1f) ||
         u_isUWhiteSpace(static_cast<UChar32>(code_point));
}

absl::string_view WithoutTrailingSpace(absl::string_view text) {
  int64_t end = 0;
  for (int64_t at = 0; at < static_cast<int64_t>(text.size());) {
    if (!IsWhiteSpace(NextCodePoint(text, &at))) end = at;
  }
  return text.substr(0, end);
}

absl::string_view WithoutOuterSpace(absl::string_view text) {
  text = WithoutTrailingSpace(text);
  int64_t begin = 0;
  for (int64_t at = 0; at < static_cast<int64_t>(text.size()); begin = at) {
    if (!IsWhiteSpace(NextCodePoint(text, &at))) break;
  }
  return text.substr(begin);
}

std::vector<absl::string_view> SplitAtWhiteSpace(absl::string_view text) {
  std::vector<absl::string_view> words;
  int64_t begin = 0;  // start of the current word
  for (int64_t at = 0, next = 0; at < static_cast<int64_t>(text.size()); at = next) {
    if (!IsWhiteSpace(NextCodePoint(text, &next))) continue;
    if (at > begin) words.push_back(text.substr(begin, at - begin));
    begin = next;
  }
  if (static_cast<int64_t>(text.size()) > begin) words.push_back(text.substr(begin));
  return words;
}

std::vector<uint32_t> WordNumbers::Of(const std::vector<std::string>& words) {
  std::vector<uint32_t> numbers;
  numbers.reserve(words.size());
  for (const std::string& word : words) {
    const auto next = static_cast<uint32_t>(numbers_.size());
    numbers.push_back(numbers_.try_emplace(word, next).first->second);
  }
  return numbers;
}

}  // namespace spillway
