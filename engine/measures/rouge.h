// ROUGE (Lin, 2004), as the package rouge_score computes it without a stemmer: words are runs of a
// to z and 0 to 9, in lower case.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway {

// Counts of an answer and its reference.
struct RougeCounts {
  int64_t words = 0;     // unigrams in common
  int64_t pairs = 0;     // bigrams in common
  int64_t sequence = 0;  // words of the longest common subsequence
  int64_t answer_words = 0;
  int64_t target_words = 0;
};

RougeCounts CountForRouge(absl::string_view answer, absl::string_view target);

// F-measures from 0 to 1: ROUGE-1, ROUGE-2 and ROUGE-L. Several texts have their means.
struct RougeScores {
  double one = 0, two = 0, longest = 0;
};
RougeScores Rouge(const RougeCounts& counts);

std::vector<std::string> RougeWords(absl::string_view text);

}  // namespace spillway
