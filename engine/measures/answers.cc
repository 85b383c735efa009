#include "engine/measures/answers.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "engine/measures/text_words.h"
#include "io/base/check.h"

namespace spillway {
namespace {

struct Candidate {
  int64_t begin = 0, end = 0;
  double score = 0;
  bool is_empty() const { return begin >= end; }
};

// The numbers of the highest scores, the highest first; of equal ones the last, as numpy's argsort
// read backwards has them.
std::vector<int64_t> Best(const std::vector<float>& scores, int64_t count) {
  std::vector<int64_t> numbers(scores.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto kept = std::min<int64_t>(count, static_cast<int64_t>(numbers.size()));
  std::partial_sort(
      numbers.begin(), numbers.begin() + kept, numbers.end(),
      [&](int64_t a, int64_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a > b; });
  numbers.resize(kept);
  return numbers;
}

void AddCandidates(const ScoredWindow& window, const AnswerOptions& options,
                   std::vector<Candidate>& candidates) {
  const std::vector<int64_t> lasts = Best(window.last, options.candidates);
  for (const int64_t first : Best(window.first, options.candidates)) {
    for (const int64_t last : lasts) {
      if (!window.places[first] || !window.places[last]) continue;
      if (last < first || last - first + 1 > options.most_tokens) continue;
      candidates.push_back({window.places[first]->first, window.places[last]->second,
                            double{window.first[first]} + window.last[last]});
    }
  }
}

bool IsWordCharacter(uint32_t point) {
  const uint32_t type = U_MASK(u_charType(static_cast<UChar32>(point)));
  return point == '_' || (type & (U_GC_L_MASK | U_GC_N_MASK)) != 0;
}

std::vector<std::string> WordsOf(absl::string_view text) {
  const auto words = SplitAtWhiteSpace(text);
  return {words.begin(), words.end()};
}

AnswerScore Compare(const std::string& answer, const std::string& right) {
  AnswerScore score;
  score.exact = answer == right ? 1 : 0;
  const std::vector<std::string> given = WordsOf(answer), expected = WordsOf(right);
  if (given.empty() || expected.empty()) {
    score.f1 = given.empty() && expected.empty() ? 1 : 0;
    return score;
  }
  std::map<std::string, int64_t> left;
  for (const std::string& word : expected) ++left[word];
  double same = 0;
  for (const std::string& word : given) same += left[word]-- > 0 ? 1 : 0;
  if (same == 0) return score;
  const double precision = same / static_cast<double>(given.size());
  const double recall = same / static_cast<double>(expected.size());
  score.f1 = 2 * precision * recall / (precision + recall);
  return score;
}

}  // namespace

FoundAnswer FindAnswer(const std::vector<ScoredWindow>& windows, absl::string_view text,
                       const AnswerOptions& options) {
  std::vector<Candidate> candidates;
  std::optional<Candidate> empty;
  for (const ScoredWindow& window : windows) {
    SPILLWAY_CHECK(!window.places.empty() && !window.places.front());
    SPILLWAY_CHECK(window.first.size() == window.places.size() &&
                   window.last.size() == window.places.size());
    const double score = double{window.first[0]} + window.last[0];
    if (!empty || score < empty->score) empty = Candidate{0, 0, score};
    AddCandidates(window, options, candidates);
  }
  if (options.null_threshold && empty) candidates.push_back(*empty);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  const auto kept = std::min<size_t>(options.candidates, candidates.size());
  const bool kept_empty = std::any_of(candidates.begin(), candidates.begin() + kept,
                                      [](const Candidate& one) { return one.is_empty(); });
  candidates.resize(kept);
  if (options.null_threshold && empty && !kept_empty) candidates.push_back(*empty);
  if (candidates.empty()) return {};
  double sum = 0;
  for (const Candidate& one : candidates) sum += std::exp(one.score - candidates[0].score);
  const auto answer = [&](const Candidate& one) {
    return FoundAnswer{one.begin, one.end, one.score,
                       std::exp(one.score - candidates[0].score) / sum};
  };
  if (!options.null_threshold) return answer(candidates.front());
  const auto best = std::find_if(candidates.begin(), candidates.end(),
                                 [](const Candidate& one) { return !one.is_empty(); });
  const bool none =
      best == candidates.end() || empty->score - best->score > *options.null_threshold;
  return answer(none ? *empty : *best);
}

std::string NormalizedAnswer(absl::string_view text) {
  std::string lower;
  icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())))
      .toLower(icu::Locale::getRoot())
      .toUTF8String(lower);
  std::erase_if(lower, [](char c) { return absl::ascii_ispunct(static_cast<unsigned char>(c)); });
  // Articles are whole runs of word characters.
  std::string without;
  size_t run = 0;  // where it begins in `without`
  const auto end_run = [&] {
    const absl::string_view word = absl::string_view(without).substr(run);
    if (word == "a" || word == "an" || word == "the") without.replace(run, word.size(), " ");
  };
  const auto points = icu::UnicodeString::fromUTF8(lower);
  for (int32_t at = 0; at < points.length(); at = points.moveIndex32(at, 1)) {
    const UChar32 point = points.char32At(at);
    if (!IsWordCharacter(static_cast<uint32_t>(point))) {
      end_run();
      icu::UnicodeString(point).toUTF8String(without);
      run = without.size();
    } else {
      icu::UnicodeString(point).toUTF8String(without);
    }
  }
  end_run();
  return absl::StrJoin(SplitAtWhiteSpace(without), " ");
}

AnswerScore ScoreAnswer(absl::string_view answer, const std::vector<std::string>& right) {
  const std::string given = NormalizedAnswer(answer);
  if (right.empty()) return Compare(given, "");
  AnswerScore best;
  for (const std::string& one : right) {
    const AnswerScore score = Compare(given, NormalizedAnswer(one));
    best.exact = std::max(best.exact, score.exact);
    best.f1 = std::max(best.f1, score.f1);
  }
  return best;
}

}  // namespace spillway
