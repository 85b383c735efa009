// The regular expression by which a tokenizer splits text into words, matched by PCRE2.
//
// A tokenizer.json's patterns are written for Oniguruma (Ruby's dialect). Constructs with the same
// meaning in both engines are accepted, which covers existing tokenizers; others are refused by
// name. Which characters are letters depends on the Unicode version: Debian 12's PCRE2 has 14,
// current `tokenizers` 16, so characters newer than 2021 may be split differently.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

// GPT-2's pattern, which ByteLevel applies with use_regex.
inline constexpr absl::string_view kGpt2SplitPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

inline constexpr size_t kMaxSplitPatternBytes = 4096;

// The pattern in PCRE2's dialect; kInvalidArgument names what is unsupported.
absl::StatusOr<std::string> TranslateSplitPattern(absl::string_view pattern);

// Whether a pattern in PCRE2's dialect matches in linear time: each alternative is a sequence of
// characters and classes, at most two of variable length, and at most the last unbounded. Other
// patterns may scan a stretch repeatedly.
bool IsLinearPattern(absl::string_view translated);

// Immutable: any thread.
// Large because limits of work depend on how a pattern is translated.
class SplitPattern {
 public:
  static absl::StatusOr<SplitPattern> Compile(absl::string_view pattern);
  // A pattern that is written for PCRE2, and takes linear time.
  static absl::StatusOr<SplitPattern> CompileOwn(const std::string& pattern);
  SplitPattern(SplitPattern&&);
  SplitPattern& operator=(SplitPattern&&);
  ~SplitPattern();

 private:
  friend class SplitMatcher;
  struct Code;
  explicit SplitPattern(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

// The working memory of matching. One thread; the pattern must outlive it.
// Large because matching depends on the properties of the pattern.
class SplitMatcher {
 public:
  explicit SplitMatcher(const SplitPattern& pattern);
  ~SplitMatcher();
  SplitMatcher(const SplitMatcher&) = delete;
  SplitMatcher& operator=(const SplitMatcher&) = delete;

  struct Match {
    // kMore: text beyond the end may change the match from `begin` on.
    enum class Kind { kNone, kFound, kMore };
    Kind kind = Kind::kNone;
    size_t begin = 0, end = 0;
  };

  // The first match in text.substr(from), with positions in `text`; never empty. With
  // `more_follows` the result holds for any following text. An error names its cause, such as too
  // much backtracking (kStepsPerByte); kCancelled at a StopSignal. REQUIRES: valid UTF-8, from <
  // text.size().
  absl::StatusOr<Match> Find(absl::string_view text, size_t from, bool more_follows);

 private:
  struct State;
  // Find for a pattern of possibly nonlinear time: tries one position after the other.
  absl::StatusOr<Match> FindGuarded(absl::string_view text, size_t from, bool more_follows);
  // Matches at one position. Short stretches are tried without counting steps; longer ones, or
  // those with many steps, are counted and limited to the remaining steps.
  absl::StatusOr<Match> MatchAt(absl::string_view text, size_t at, bool more_follows);
  absl::StatusOr<Match> CountedMatchAt(absl::string_view text, size_t at, bool more_follows);
  const SplitPattern& pattern_;
  std::unique_ptr<State> state_;
};

}  // namespace spillway
