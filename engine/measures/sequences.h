// What two sequences of words or characters, given by numbers, have in common. Pure functions.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace spillway {

// The fewest words that must be put in, left out or exchanged to make one of the other
// (Levenshtein's distance). Time: the product of both lengths, less what they begin and end with
// alike; memory: the shorter one's length.
int64_t EditDistance(absl::Span<const uint32_t> a, absl::Span<const uint32_t> b);

// The longest sequence that both have, with anything between. Time and memory as above.
int64_t LongestCommonSubsequence(absl::Span<const uint32_t> a, absl::Span<const uint32_t> b);

// The longest n-gram that CommonNgrams counts.
inline constexpr int kLongestNgram = 4;

// Sequences of `n` words next to each other that both have, each as often as the one does that has
// it fewer times. REQUIRES: 0 < n <= kLongestNgram.
int64_t CommonNgrams(absl::Span<const uint32_t> a, absl::Span<const uint32_t> b, int n);

}  // namespace spillway
