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

// Immutable: any thread.
class SplitPattern {
 public:
  static absl::StatusOr<SplitPattern> Compile(absl::string_view pattern);
  // One that is written for PCRE2.
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
  // backtracking) names its cause. REQUIRES: valid UTF-8, from < text.size().
  absl::StatusOr<Match> Find(absl::string_view text, size_t from, bool more_follows);

 private:
  struct State;
  const SplitPattern& pattern_;
  std::unique_ptr<State> state_;
};

}  // namespace spillway
