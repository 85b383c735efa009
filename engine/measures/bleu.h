// BLEU of many texts (Papineni et al., 2002), as sacrebleu computes it where nothing else is said:
// words by the rules of mteval-v13a, capitals count, one target a text, n-grams of up to four
// words, exponential smoothing of orders without a match, and all four orders count.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway {

// Of one answer and its target; those of many are their sums.
struct BleuCounts {
  static constexpr int kOrders = 4;
  std::array<int64_t, kOrders> matches = {};  // [n - 1] n-grams that the target has, too
  std::array<int64_t, kOrders> ngrams = {};   // [n - 1] of the answer
  int64_t answer_words = 0;
  int64_t target_words = 0;

  BleuCounts& operator+=(const BleuCounts& other);
};

BleuCounts CountForBleu(absl::string_view answer, absl::string_view target);

// From 0 to 100.
double Bleu(const BleuCounts& counts);

// What it takes for words: punctuation apart, but within numbers.
std::vector<std::string> BleuWords(absl::string_view text);

}  // namespace spillway
