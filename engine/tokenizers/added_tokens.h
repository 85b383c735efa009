// Tokens that are matched literally in a text before it is split into words: "<|endoftext|>" and
// others.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/tokenizers/text_stage.h"

namespace spillway {

struct AddedToken {
  uint32_t id = 0;
  std::string content;       // never empty, except for one that normalization removes
  bool single_word = false;  // no match next to a word character
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // ... and after it
  bool normalized = false;   // matched in the normalised text
  bool special = false;      // not part of text, such as "[CLS]"
};

// Finds the longest token at a position. Immutable: any thread.
class AddedTokenSet {
 public:
  explicit AddedTokenSet(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  bool any_lstrip() const { return any_lstrip_; }

  // The first byte at or after `at` where a token may begin; text.size() if there is none.
  size_t Candidate(absl::string_view text, size_t at) const;

  struct Found {
    const AddedToken* token = nullptr;
    bool undecided = false;  // the text ends where a longer token may continue
  };
  Found LongestAt(absl::string_view text, size_t at) const;

 private:
  std::vector<AddedToken> tokens_;  // sorted by content
  std::array<bool, 256> first_ = {};
  bool any_lstrip_ = false;
};

// Splits the tokens out of each segment: leftmost, then longest, like Hugging Face's tokenizers,
// with the same rules for words and white space.
class AddedTokenStage : public TextStage {
 public:
  // Both must outlive it.
  AddedTokenStage(const AddedTokenSet* set, TextStage* next) : set_(set), next_(next) {}

  absl::Status Text(absl::string_view piece) override;
  absl::Status EndSegment() override;
  absl::Status Token(uint32_t token) override { return next_->Token(token); }
  void Continue() override { next_->Continue(); }
  void Reset() override;

 private:
  absl::Status Scan(bool final);
  void SkipSpace();
  absl::Status Emit(size_t end);
  // The start of the white space before `end`, at most kMaxHeldBytes of it.
  size_t SpaceBefore(size_t end) const;

  const AddedTokenSet* const set_;
  TextStage* const next_;
  // Positions are in buffer_, which keeps one character before start_ as context.
  std::string buffer_;
  size_t start_ = 0;    // text before it has been passed on
  size_t scanned_ = 0;  // no token starts before it
  bool skipping_ = false;
};

}  // namespace spillway
