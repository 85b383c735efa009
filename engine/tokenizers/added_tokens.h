// Tokens that are found in a text as they are written, before it is cut into words:
// "<|endoftext|>" and its like.
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
  std::string content;       // never empty, but for one that normalizing leaves nothing of
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // ... and after it
  bool normalized = false;   // looked for in the normalised text
  bool special = false;      // of no text, as "[CLS]"
};

// Finds the longest of them at a place. Immutable: any thread.
class AddedTokenSet {
 public:
  explicit AddedTokenSet(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  bool any_lstrip() const { return any_lstrip_; }

  // The first byte at or after `at` with which a token begins; text.size() for none.
  size_t Candidate(absl::string_view text, size_t at) const;

  struct Found {
    const AddedToken* token = nullptr;
    bool undecided = false;  // the text ends where a longer one may go on
  };
  Found LongestAt(absl::string_view text, size_t at) const;

 private:
  std::vector<AddedToken> tokens_;  // by content
  std::array<bool, 256> first_ = {};
  bool any_lstrip_ = false;
};

// Cuts the tokens out of each segment: leftmost, then longest, as Hugging Face's
// tokenizers do, with the same rules for words and white space.
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
  // Where the white space before `end` begins, at most kMaxHeldBytes of it.
  size_t SpaceBefore(size_t end) const;

  const AddedTokenSet* const set_;
  TextStage* const next_;
  // Positions are in buffer_, which keeps one character before start_ as context.
  std::string buffer_;
  size_t start_ = 0;    // handed on up to here
  size_t scanned_ = 0;  // no token begins before
  bool skipping_ = false;
};

}  // namespace spillway
