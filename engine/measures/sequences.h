// Edit distance, common subsequences and n-grams of two sequences of words or characters, given as
// numbers. Pure functions.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace spillway {

// Levenshtein's distance: the fewest insertions, deletions and replacements. Time: the product of
// both lengths without common prefix and suffix; memory: the shorter length.
int64_t EditDistance(absl::Span<const uint32_t> a, absl::Span<const uint32_t> b);

// The length of the longest common subsequence. Time and memory as above.
int64_t LongestCommonSubsequence(absl::Span<const uint32_t> a, absl::Span<const uint32_t> b);

// The longest n-gram that CommonNgrams counts.
inline constexpr int kLongestNgram = 4;

// The number of n-grams in common: each counts as often as in the sequence that has it fewer times.
// REQUIRES: 0 < n <= kLongestNgram.
int64_t CommonNgrams(absl::Span<const uint32_t> a, absl::Span<const uint32_t> b, int n);

}  // namespace spillway
