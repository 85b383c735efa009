#include "engine/measures/error_rate.h"

#include "engine/base/utf8.h"
#include "engine/measures/sequences.h"
#include "engine/measures/text_words.h"

namespace spillway {

EditCounts& EditCounts::operator+=(const EditCounts& other) {
  edits += other.edits;
  target += other.target;
  return *this;
}

std::vector<std::string> ErrorRateWords(absl::string_view text) {
  const std::vector<uint32_t> all = CodePointsOf(text);
  std::vector<std::string> words(1);
  const auto is_space = [&](size_t i) { return i < all.size() && IsWhiteSpace(all[i]); };
  for (size_t i = 0; i < all.size(); ++i) {
    if (!is_space(i)) {
      AppendUtf8(all[i], &words.back());
      continue;
    }
    const size_t first = i;
    while (is_space(i + 1)) ++i;
    const bool at_an_end = first == 0 || i + 1 == all.size();
    if (i > first || all[i] == ' ' || at_an_end) {
      if (!words.back().empty()) words.emplace_back();
    } else {
      AppendUtf8(all[i], &words.back());  // a single white space character belongs to the word
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

EditCounts CountWordEdits(absl::string_view answer, absl::string_view target) {
  WordNumbers numbers;
  const std::vector<uint32_t> made = numbers.Of(ErrorRateWords(answer));
  const std::vector<uint32_t> right = numbers.Of(ErrorRateWords(target));
  return {EditDistance(made, right), static_cast<int64_t>(right.size())};
}

EditCounts CountCharacterEdits(absl::string_view answer, absl::string_view target) {
  const std::vector<uint32_t> made = CodePointsOf(WithoutOuterSpace(answer));
  const std::vector<uint32_t> right = CodePointsOf(WithoutOuterSpace(target));
  return {EditDistance(made, right), static_cast<int64_t>(right.size())};
}

double ErrorRate(const EditCounts& counts) {
  const auto edits = static_cast<double>(counts.edits);
  return counts.target > 0 ? edits / static_cast<double>(counts.target) : edits;
}

}  // namespace spillway
