#include "engine/base/nearest.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

// The name in lower case, with '_' for '-' and without leading dashes.
std::string Folded(absl::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string folded = absl::AsciiStrToLower(name);
  std::replace(folded.begin(), folded.end(), '-', '_');
  return folded;
}

// Optimal string alignment distance (Damerau and Levenshtein, restricted).
size_t EditDistance(const std::string& a, const std::string& b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> table((a.size() + 1) * width);
  const auto d = [&](size_t i, size_t j) -> size_t& { return table[i * width + j]; };
  for (size_t i = 0; i <= a.size(); ++i) d(i, 0) = i;
  for (size_t j = 0; j <= b.size(); ++j) d(0, j) = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d(i, j) = std::min(
          {d(i - 1, j) + 1, d(i, j - 1) + 1, d(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d(i, j) = std::min(d(i, j), d(i - 2, j - 2) + 1);
      }
    }
  }
  return d(a.size(), b.size());
}

// A longer name is not a typing error; this also bounds the table.
constexpr size_t kLongestName = 128;
// More edits than these make another word.
constexpr size_t kMostEdits = 2;

// Whether `words` is a sequence of whole words in `name`.
bool HasWords(absl::string_view name, absl::string_view words) {
  return absl::StrContains(absl::StrCat("_", name, "_"), absl::StrCat("_", words, "_"));
}

// Finds names with more or fewer words: "batch" finds "micro_batch", by the fewest extra words;
// "number_of_epochs" finds "epochs", the longest name at its end, or before a last word without
// meaning. "" for a tie.
std::string NameOfMoreOrFewerWords(const std::string& folded,
                                   const std::vector<std::string>& known) {
  constexpr size_t kShortest = 4;  // letters: "lr" is part of too many names
  if (folded.size() < kShortest) return "";
  std::string nearest;
  size_t fewest = folded.size() + kLongestName;
  bool several = false;
  for (const std::string& candidate : known) {
    const std::string other = Folded(candidate);
    if (!HasWords(other, folded) || other.size() > kLongestName) continue;
    const auto words = static_cast<size_t>(std::count(other.begin(), other.end(), '_'));
    if (words == fewest) several = true;
    if (words >= fewest) continue;
    fewest = words;
    several = false;
    nearest = candidate;
  }
  if (!nearest.empty()) return several ? "" : nearest;
  size_t longest = kShortest - 1;
  for (const std::string& candidate : known) {
    const std::string other = Folded(candidate);
    bool has = absl::EndsWith(folded, absl::StrCat("_", other));
    for (const char* const word : {"path", "file", "dir", "directory", "folder", "name", "size"}) {
      has |= folded == absl::StrCat(other, "_", word);
    }
    if (!has || other.size() <= longest) continue;
    longest = other.size();
    nearest = candidate;
  }
  return nearest;
}

}  // namespace

std::string NearestName(absl::string_view name, const std::vector<std::string>& known) {
  if (name.size() > kLongestName) return "";
  const std::string folded = Folded(name);
  if (folded.empty()) return "";
  std::string nearest;
  size_t best = std::clamp<size_t>(folded.size() / 3, 1, kMostEdits) + 1;
  for (const std::string& candidate : known) {
    if (candidate.size() > kLongestName) continue;
    const size_t distance = EditDistance(folded, Folded(candidate));
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest.empty() ? NameOfMoreOrFewerWords(folded, known) : nearest;
}

bool IsSlipOf(absl::string_view name, absl::string_view known) {
  if (name.size() > kLongestName || known.size() > kLongestName) return false;
  const std::string folded = Folded(name), meant = Folded(known);
  if (EditDistance(folded, meant) <= std::max<size_t>(1, folded.size() / 5)) return true;
  return meant.find(folded) != std::string::npos && 2 * folded.size() > meant.size();
}

std::string DidYouMean(absl::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  return nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?");
}

}  // namespace spillway
