#include "engine/base/nearest.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

// Without the dashes of a flag, which all flags have.
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

// Names longer than this are nobody's slip of the keyboard; it also bounds the table.
constexpr size_t kLongestName = 128;

}  // namespace

std::string NearestName(absl::string_view name, const std::vector<std::string>& known) {
  if (name.size() > kLongestName) return "";
  const std::string folded = Folded(name);
  if (folded.empty()) return "";
  std::string nearest;
  // A third of the name may be wrong, at least one letter.
  size_t best = std::max<size_t>(1, folded.size() / 3) + 1;
  for (const std::string& candidate : known) {
    if (candidate.size() > kLongestName) continue;
    const size_t distance = EditDistance(folded, Folded(candidate));
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  if (!nearest.empty() || folded.size() < 4) return nearest;
  // What was meant may be the start, or the end, of a longer name, or have more around it.
  size_t longest = 0;
  for (const std::string& candidate : known) {
    const std::string other = Folded(candidate);
    if (other.find(folded) != std::string::npos) return candidate;
    const bool inside =
        absl::StartsWith(folded, other) || absl::EndsWith(folded, absl::StrCat("_", other));
    if (!inside || other.size() <= longest) continue;
    longest = other.size();
    nearest = candidate;
  }
  return nearest;
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
