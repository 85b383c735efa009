// Corpus BLEU (Papineni et al., 2002) with sacrebleu's defaults: tokenised by mteval-v13a's rules,
// case-sensitive, one reference per text, n-grams up to 4, exponential smoothing of orders without
// a match, all four orders effective.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway {

// Counts of an answer and its reference; counts of several texts are added.
struct BleuCounts {
  static constexpr int kOrders = 4;
  std::array<int64_t, kOrders> matches = {};  // [n - 1] n-grams also in the reference
  std::array<int64_t, kOrders> ngrams = {};   // [n - 1] n-grams of the answer
  int64_t answer_words = 0;
  int64_t target_words = 0;

  BleuCounts& operator+=(const BleuCounts& other);
};

BleuCounts CountForBleu(absl::string_view answer, absl::string_view target);

// BLEU from 0 to 100.
double Bleu(const BleuCounts& counts);

// The tokens of a text: punctuation is split off, except within numbers.
std::vector<std::string> BleuWords(absl::string_view text);

}  // namespace spillway
