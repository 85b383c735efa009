#include "engine/tokenizers/split_pattern.h"

#include <signal.h>

#include "engine/base/stop_signal.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;
using Kind = SplitMatcher::Match::Kind;

std::vector<std::string> Words(const std::string& pattern, const std::string& text) {
  const auto compiled = SplitPattern::Compile(pattern);
  EXPECT_TRUE(compiled.ok()) << pattern << ": " << compiled.status();
  SplitMatcher matcher(*compiled);
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const auto match = matcher.Find(text, at, false);
    EXPECT_TRUE(match.ok()) << match.status();
    if (match->kind != Kind::kFound) break;
    words.push_back(text.substr(match->begin, match->end - match->begin));
    at = match->end;
  }
  return words;
}

TEST(SplitPattern, MatchesAsOnigurumaDoes) {
  using Strings = std::vector<std::string>;
  EXPECT_EQ(Words(std::string(kGpt2SplitPattern), "I'll  go\u00a0 42x"),
            (Strings{"I", "'ll", " ", " go", "\u00a0", " 42", "x"}));
  EXPECT_EQ(Words("(?i:'s|'t|'re)", "'S 'RE '\u017f"), (Strings{"'S", "'RE", "'\u017f"}));
  EXPECT_EQ(Words("\\p{N}{1,3}", "1234567"), (Strings{"123", "456", "7"}));
  EXPECT_EQ(Words("[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+", " ab-c"), (Strings{" ab", "-c"}));
}

TEST(SplitPattern, KnowsWhatTakesLinearTime) {
  for (const char* linear : {" ", "\\s+", "[0-9][0-9][0-9]", "\\p{N}{1,3}", " {2,}", " ?\\p{L}+",
                             "ab|[^\\]x]*+|\\p{L}|\\.c?", "[\\s\\p{P}]?[a-z]{0,8}"}) {
    EXPECT_TRUE(IsLinearPattern(*TranslateSplitPattern(linear))) << linear;
  }
  for (const char* other : {"(?:ab)+", "\\s+(?!\\S)", "\\s*[\\r\\n]+", "a*b", "a+a", "a{2,}b",
                            "a{0,99}b", "a?b?c?d", "a|b*c", "(a|b)"}) {
    EXPECT_FALSE(IsLinearPattern(*TranslateSplitPattern(other))) << other;
  }
}

// Each takes more than linear time somewhere: an error, and soon, or all words.
TEST(SplitPattern, HostilePatternsEndSoon) {
  const auto matches = [](const std::string& pattern, const std::string& text) {
    const auto compiled = SplitPattern::Compile(pattern);
    EXPECT_TRUE(compiled.ok()) << pattern << ": " << compiled.status();
    SplitMatcher matcher(*compiled);
    for (size_t at = 0; at < text.size();) {
      const auto match = matcher.Find(text, at, false);
      if (!match.ok()) return match.status();
      if (match->kind != Kind::kFound) break;
      at = match->end;
    }
    return absl::OkStatus();
  };
  std::string runs;
  for (int i = 0; i < 3000; ++i) runs += std::string(180, 'a') + "c";
  std::string run(1 << 20, 'a'), spaces(1 << 20, ' ');
  for (const auto& [pattern, text] :
       {std::pair{"(?:a*a*a*a*)b", &runs}, std::pair{"(?:a+)+b", &runs},
        std::pair{"(?:a|aa)+b", &run}, std::pair{"a*a*b", &run}, std::pair{"[^b]*b", &run},
        std::pair{"\\s+\\s+\\S", &spaces}}) {
    ExpectError(matches(pattern, *text), StatusCode::kInvalidArgument, {"too much backtracking"});
  }
  // Real ones take long stretches of every kind.
  std::string letters;
  for (int i = 0; i < 1 << 18; ++i) letters += "ACGT"[(i * 7 + i / 3) % 4];
  const std::string llama3 =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  const std::string o200k =
      "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
      "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
      "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  for (const std::string& pattern : {std::string(kGpt2SplitPattern), llama3, o200k}) {
    for (const std::string& text : {run, spaces, letters, std::string(1 << 20, '\n'),
                                    std::string(1 << 20, '-'), letters + spaces + "x\n"}) {
      EXPECT_EQ(matches(pattern, text), absl::OkStatus()) << pattern << ": " << text.substr(0, 4);
    }
  }
}

TEST(SplitPattern, ListensToAStopSignal) {
  const StopSignal signals;
  const auto compiled = SplitPattern::Compile("(?:a|b)+c");
  SplitMatcher matcher(*compiled);
  StopSignal::Receive(SIGTERM);
  EXPECT_EQ(matcher.Find(std::string(1000, 'a'), 0, false).status().code(), StatusCode::kCancelled);
}

TEST(SplitPattern, WhiteSpaceIsUnicodes) {
  EXPECT_EQ(Words("\\s", "\u180e").size(), 0u) << "a separator of old, no space since 2013";
  for (const char* space : {" ", "\t", "\x0b", "\u0085", "\u00a0", "\u1680", "\u200a", "\u2029",
                            "\u202f", "\u205f", "\u3000"}) {
    EXPECT_EQ(Words("\\s", space).size(), 1u);
    EXPECT_EQ(Words("[^\\s]", space).size(), 0u);
    EXPECT_EQ(Words("\\S", space).size(), 0u);
  }
}

TEST(SplitPattern, WhatMeansSomethingElseIsRefused) {
  for (const char* pattern :
       {"^a",     "a$",     "\\bword", "\\w+",        "\\h",        "\\Aa",    "a\\K",
        "\\X",    "\\R",    "\\x41",   "\\p{Han}",    "\\p{Greek}", "\\pL",    "[[:alpha:]]",
        "[a&&b]", "[a[b]]", "[]a]",    "[\\S]",       "(?<=a)b",    "(?<n>a)", "(?i)a",
        "(?m:a)", "(?R)",   "(*UTF)a", "(?i:\\p{L})", "(?#c)a",     "a{,3}",   "a{1,3}+",
        "a{2}?",  "a{x}",   "[a",      "\\",          "(?C1)a"}) {
    const auto compiled = SplitPattern::Compile(pattern);
    EXPECT_EQ(compiled.status().code(), StatusCode::kInvalidArgument) << pattern;
  }
  ExpectError(TranslateSplitPattern("x\\p{Han}").status(), StatusCode::kInvalidArgument,
              {"\"\\p{Han}\" in it is not supported"});
  ExpectError(SplitPattern::Compile("(a").status(), StatusCode::kInvalidArgument,
              {"not a regular expression"});
  ExpectError(SplitPattern::Compile("a*").status(), StatusCode::kInvalidArgument, {"no character"});
  ExpectError(SplitPattern::Compile("").status(), StatusCode::kInvalidArgument, {"empty"});
  ExpectError(SplitPattern::Compile(std::string(5000, 'a')).status(), StatusCode::kInvalidArgument,
              {"5000 bytes"});
}

TEST(SplitPattern, SaysWhenMoreTextMayMatter) {
  const auto compiled = SplitPattern::Compile(kGpt2SplitPattern);
  SplitMatcher matcher(*compiled);
  const auto more = [&](const char* text) { return matcher.Find(text, 0, true)->kind; };
  EXPECT_EQ(more("ab"), Kind::kMore);
  EXPECT_EQ(more("ab "), Kind::kFound);
  EXPECT_EQ(more("  "), Kind::kMore);
  EXPECT_EQ(more("  a"), Kind::kFound);
  EXPECT_EQ(more("'l"), Kind::kMore);
  EXPECT_EQ(matcher.Find("'l", 0, false)->end, 1u);
}

TEST(SplitPattern, TooMuchBacktrackingIsAStatus) {
  const auto compiled = SplitPattern::Compile("(a+a+)+[bc]");
  ASSERT_TRUE(compiled.ok());
  SplitMatcher matcher(*compiled);
  ExpectError(matcher.Find(std::string(5000, 'a'), 0, false).status(), StatusCode::kInvalidArgument,
              {"cannot be matched", "backtracking"});
}

}  // namespace
}  // namespace spillway
