// Error rates of many texts, as jiwer computes them where nothing else is said: the words, or
// characters, that must be put in, left out or exchanged, over those of the targets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway {

// Of one answer and its target; those of many are their sums.
struct EditCounts {
  int64_t edits = 0;
  int64_t target = 0;  // words or characters of the target

  EditCounts& operator+=(const EditCounts& other);
};

// Words are what spaces separate; other white space does where there are two of it in a row.
EditCounts CountWordEdits(absl::string_view answer, absl::string_view target);
// Characters are code points, spaces within the text included.
EditCounts CountCharacterEdits(absl::string_view answer, absl::string_view target);

// 0 where the texts are the same, and above 1 where they are much longer than the targets. Of empty
// targets the edits themselves.
double ErrorRate(const EditCounts& counts);

std::vector<std::string> ErrorRateWords(absl::string_view text);

}  // namespace spillway
