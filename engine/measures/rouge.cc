#include "engine/measures/rouge.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "engine/measures/sequences.h"
#include "engine/measures/text_words.h"

namespace spillway {
namespace {

// The non-ASCII capitals whose lower case is ASCII.
constexpr uint32_t kKelvin = 0x212a;          // k
constexpr uint32_t kCapitalDottedI = 0x0130;  // i and a combining dot, which is no letter here

// The F-measure for `common` matches of `made` and `right` items.
double FMeasure(int64_t common, int64_t made, int64_t right) {
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(made);
  const double recall = static_cast<double>(common) / static_cast<double>(right);
  return 2 * precision * recall / (precision + recall);
}

}  // namespace

std::vector<std::string> RougeWords(absl::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end = [&] {
    if (!word.empty()) words.push_back(word);
    word.clear();
  };
  for (const uint32_t c : CodePointsOf(text)) {
    if (c < 0x80 && absl::ascii_isalnum(static_cast<unsigned char>(c))) {
      word += absl::ascii_tolower(static_cast<unsigned char>(c));
    } else if (c == kKelvin) {
      word += 'k';
    } else {
      if (c == kCapitalDottedI) word += 'i';
      end();
    }
  }
  end();
  return words;
}

RougeCounts CountForRouge(absl::string_view answer, absl::string_view target) {
  WordNumbers numbers;
  const std::vector<uint32_t> made = numbers.Of(RougeWords(answer));
  const std::vector<uint32_t> right = numbers.Of(RougeWords(target));
  RougeCounts counts;
  counts.words = CommonNgrams(made, right, 1);
  counts.pairs = CommonNgrams(made, right, 2);
  counts.sequence = LongestCommonSubsequence(made, right);
  counts.answer_words = static_cast<int64_t>(made.size());
  counts.target_words = static_cast<int64_t>(right.size());
  return counts;
}

RougeScores Rouge(const RougeCounts& counts) {
  const int64_t made = counts.answer_words, right = counts.target_words;
  return {FMeasure(counts.words, made, right), FMeasure(counts.pairs, made - 1, right - 1),
          FMeasure(counts.sequence, made, right)};
}

}  // namespace spillway
