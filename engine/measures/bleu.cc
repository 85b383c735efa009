#include "engine/measures/bleu.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "engine/measures/sequences.h"
#include "engine/measures/text_words.h"

namespace spillway {
namespace {

// The rules of mteval-v13a concern ASCII characters only, so the bytes of other characters pass
// unchanged.

bool IsStop(char c) { return c == '.' || c == ','; }

// Characters that are tokens by themselves: ASCII symbols and punctuation except ' , - and .
bool IsSymbol(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

std::string SymbolsApart(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (IsSymbol(c)) {
      out.append({' ', c, ' '});
    } else {
      out += c;
    }
  }
  return out;
}

// Replaces each pair of characters for which `applies` by the result of `write`; pairs do not
// overlap.
template <typename Applies, typename Write>
std::string RewritePairs(absl::string_view text, Applies applies, Write write) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && applies(text[i], text[i + 1])) {
      write(text[i], text[i + 1], &out);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

BleuCounts& BleuCounts::operator+=(const BleuCounts& other) {
  for (int i = 0; i < kOrders; ++i) {
    matches[i] += other.matches[i];
    ngrams[i] += other.ngrams[i];
  }
  answer_words += other.answer_words;
  target_words += other.target_words;
  return *this;
}

std::vector<std::string> BleuWords(absl::string_view text) {
  std::string line(WithoutTrailingSpace(text));
  // Applied in sequence: a result may match the next rule.
  using Replacement = std::pair<absl::string_view, absl::string_view>;
  for (const Replacement& one : {Replacement{"<skipped>", ""},
                                 {"-\n", ""},
                                 {"\n", " "},
                                 {"&quot;", "\""},
                                 {"&amp;", "&"},
                                 {"&lt;", "<"},
                                 {"&gt;", ">"}}) {
    line = absl::StrReplaceAll(line, {one});
  }
  line = SymbolsApart(absl::StrCat(" ", line, " "));
  // A stop is split off unless a digit precedes it, and unless one follows it.
  line = RewritePairs(
      line, [](char a, char b) { return !absl::ascii_isdigit(a) && IsStop(b); },
      [](char a, char b, std::string* out) {
        out->append({a, ' ', b, ' '});
      });
  line = RewritePairs(
      line, [](char a, char b) { return IsStop(a) && !absl::ascii_isdigit(b); },
      [](char a, char b, std::string* out) {
        out->append({' ', a, ' ', b});
      });
  line = RewritePairs(
      line, [](char a, char b) { return absl::ascii_isdigit(a) && b == '-'; },
      [](char a, char b, std::string* out) {
        out->append({a, ' ', b, ' '});
      });
  const std::vector<absl::string_view> words = SplitAtWhiteSpace(line);
  return {words.begin(), words.end()};
}

BleuCounts CountForBleu(absl::string_view answer, absl::string_view target) {
  WordNumbers numbers;
  const std::vector<uint32_t> made = numbers.Of(BleuWords(answer));
  const std::vector<uint32_t> right = numbers.Of(BleuWords(target));
  BleuCounts counts;
  counts.answer_words = static_cast<int64_t>(made.size());
  counts.target_words = static_cast<int64_t>(right.size());
  for (int n = 1; n <= BleuCounts::kOrders; ++n) {
    counts.matches[n - 1] = CommonNgrams(made, right, n);
    counts.ngrams[n - 1] = std::max<int64_t>(0, counts.answer_words - n + 1);
  }
  return counts;
}

double Bleu(const BleuCounts& counts) {
  double logarithms = 0, smoothing = 1;
  bool any = false;
  for (int i = 0; i < BleuCounts::kOrders; ++i) {
    if (counts.ngrams[i] == 0) return 0;
    any |= counts.matches[i] > 0;
    if (counts.matches[i] == 0) smoothing *= 2;
    const double matches =
        counts.matches[i] > 0 ? static_cast<double>(counts.matches[i]) : 1 / smoothing;
    logarithms += std::log(100 * matches / static_cast<double>(counts.ngrams[i]));
  }
  if (!any) return 0;
  const auto made = static_cast<double>(counts.answer_words);
  const auto right = static_cast<double>(counts.target_words);
  const double brevity = made < right ? std::exp(1 - right / made) : 1;
  return brevity * std::exp(logarithms / BleuCounts::kOrders);
}

}  // namespace spillway
