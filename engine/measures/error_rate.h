// Word and character error rates of a corpus, with jiwer's defaults: insertions, deletions and
// replacements over the length of the references.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway {

// Counts of an answer and its reference; counts of several texts are added.
struct EditCounts {
  int64_t edits = 0;
  int64_t target = 0;  // words or characters of the reference

  EditCounts& operator+=(const EditCounts& other);
};

// Words are separated by spaces; other white space separates only in runs of two or more.
EditCounts CountWordEdits(absl::string_view answer, absl::string_view target);
// Characters are code points, spaces within the text included.
EditCounts CountCharacterEdits(absl::string_view answer, absl::string_view target);

// 0 for equal texts, above 1 for answers much longer than their references. With empty references
// it is the number of edits.
double ErrorRate(const EditCounts& counts);

std::vector<std::string> ErrorRateWords(absl::string_view text);

}  // namespace spillway
