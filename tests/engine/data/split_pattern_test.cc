#include "engine/data/split_pattern.h"

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
