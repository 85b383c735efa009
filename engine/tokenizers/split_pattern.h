// The regular expression by which a tokenizer cuts text into words, matched by PCRE2.
//
// A tokenizer.json's patterns are written for Oniguruma (Ruby's dialect). They are taken
// where both engines mean the same, which is what tokenizers use; anything else is
// refused by name. Which characters are letters is a matter of the Unicode version:
// Debian 12's PCRE2 knows 14, current `tokenizers` 16, so a character that is newer than
// 2021 may be cut differently.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

// GPT-2's, which ByteLevel means by use_regex.
inline constexpr absl::string_view kGpt2SplitPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

inline constexpr size_t kMaxSplitPatternBytes = 4096;

// The same in PCRE2's dialect; kInvalidArgument names what is not supported in it.
absl::StatusOr<std::string> TranslateSplitPattern(absl::string_view pattern);

// Whether matching takes time in proportion to the text, for a pattern in PCRE2's dialect: each
// alternative is a row of characters and classes, of which two at most come in several lengths,
// and at most the last is repeated without bound. Others may go over a stretch again and again.
bool IsLinearPattern(absl::string_view translated);

// Immutable: any thread.
// Large because bounds of work belong to how a pattern is translated.
class SplitPattern {
 public:
  static absl::StatusOr<SplitPattern> Compile(absl::string_view pattern);
  // One that is written for PCRE2, and takes linear time.
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

// What matching needs to write in. One thread; the pattern must outlive it.
// Large because it goes by what the pattern is known to be.
class SplitMatcher {
 public:
  explicit SplitMatcher(const SplitPattern& pattern);
  ~SplitMatcher();
  SplitMatcher(const SplitMatcher&) = delete;
  SplitMatcher& operator=(const SplitMatcher&) = delete;

  struct Match {
    // kMore: text after the end may change what is matched from `begin` on.
    enum class Kind { kNone, kFound, kMore };
    Kind kind = Kind::kNone;
    size_t begin = 0, end = 0;
  };

  // The first match of text.substr(from), positions in `text`. With `more_follows` what
  // it finds holds whatever follows. Never empty. An error (a pattern that needs too much
  // backtracking: see kStepsPerByte) names its cause; kCancelled at a StopSignal. REQUIRES: valid
  // UTF-8, from < text.size().
  absl::StatusOr<Match> Find(absl::string_view text, size_t from, bool more_follows);

 private:
  struct State;
  // Matching by a pattern whose time is not known to be linear: at one place after the other.
  absl::StatusOr<Match> FindGuarded(absl::string_view text, size_t from, bool more_follows);
  // One place. A short stretch is tried without counting, a longer one, or one that takes many
  // steps, with a count of the steps and within the steps that are left.
  absl::StatusOr<Match> MatchAt(absl::string_view text, size_t at, bool more_follows);
  absl::StatusOr<Match> CountedMatchAt(absl::string_view text, size_t at, bool more_follows);
  const SplitPattern& pattern_;
  std::unique_ptr<State> state_;
};

}  // namespace spillway
