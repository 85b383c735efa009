#include "engine/measures/sequences.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "io/base/check.h"

namespace spillway {
namespace {

using Sequence = absl::Span<const uint32_t>;
using Ngram = std::array<uint32_t, kLongestNgram>;

// Removes the common prefix and suffix of both; returns their length.
int64_t TrimCommonEnds(Sequence* a, Sequence* b) {
  const size_t most = std::min(a->size(), b->size());
  size_t first = 0;
  while (first < most && (*a)[first] == (*b)[first]) ++first;
  a->remove_prefix(first);
  b->remove_prefix(first);
  size_t last = 0;
  while (last < most - first && (*a)[a->size() - 1 - last] == (*b)[b->size() - 1 - last]) ++last;
  a->remove_suffix(last);
  b->remove_suffix(last);
  return static_cast<int64_t>(first + last);
}

// The n-gram at `first`; unused elements are 0.
Ngram NgramAt(Sequence words, size_t first, int n) {
  Ngram ngram = {};
  std::copy_n(words.begin() + first, n, ngram.begin());
  return ngram;
}

}  // namespace

int64_t EditDistance(Sequence a, Sequence b) {
  TrimCommonEnds(&a, &b);
  if (a.size() < b.size()) std::swap(a, b);
  // [i] The distance of the processed part of `a` and the first i words of `b`.
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), int64_t{0});
  for (const uint32_t word : a) {
    int64_t diagonal = row[0]++;
    for (size_t i = 1; i <= b.size(); ++i) {
      const int64_t exchanged = diagonal + (word != b[i - 1]);
      diagonal = row[i];
      row[i] = std::min({exchanged, row[i] + 1, row[i - 1] + 1});
    }
  }
  return row.back();
}

int64_t LongestCommonSubsequence(Sequence a, Sequence b) {
  const int64_t ends = TrimCommonEnds(&a, &b);
  if (a.size() < b.size()) std::swap(a, b);
  std::vector<int64_t> row(b.size() + 1, 0);
  for (const uint32_t word : a) {
    int64_t diagonal = 0;
    for (size_t i = 1; i <= b.size(); ++i) {
      const int64_t above = row[i];
      row[i] = word == b[i - 1] ? diagonal + 1 : std::max(above, row[i - 1]);
      diagonal = above;
    }
  }
  return ends + row.back();
}

int64_t CommonNgrams(Sequence a, Sequence b, int n) {
  SPILLWAY_CHECK(n > 0 && n <= kLongestNgram);
  absl::flat_hash_map<Ngram, int64_t> left;  // n-grams of b not yet matched by a
  for (size_t i = 0; i + n <= b.size(); ++i) ++left[NgramAt(b, i, n)];
  int64_t common = 0;
  for (size_t i = 0; i + n <= a.size(); ++i) {
    const auto found = left.find(NgramAt(a, i, n));
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++common;
  }
  return common;
}

}  // namespace spillway
