// Splits segments of text by a pattern.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/tokenizers/split_pattern.h"
#include "engine/tokenizers/text_stage.h"

namespace spillway {

// The treatment of a match, with the names of `tokenizers`.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// The result does not depend on how the text arrives in pieces: a stretch is taken when no later
// text can change it, and one longer than kMaxHeldBytes is cut there.
class SplitStage : public TextStage {
 public:
  // With `invert`, the text between the pattern's matches counts as matches.
  SplitStage(std::shared_ptr<const SplitPattern> pattern, SplitBehavior behavior, bool invert,
             TextStage* next)
      : pattern_(std::move(pattern)),
        behavior_(behavior),
        invert_(invert),
        next_(next),
        matcher_(*pattern_) {}

  absl::Status Text(absl::string_view piece) override;
  absl::Status EndSegment() override;
  absl::Status Token(uint32_t token) override { return next_->Token(token); }
  void Continue() override { next_->Continue(); }
  void Reset() override;

 private:
  absl::Status Split(bool final);
  // Processes buffer_[searched_, end), which is a match or lies between two.
  absl::Status Stretch(size_t end, bool matches);
  // Passes on the waiting text up to `end`.
  absl::Status Emit(size_t end);

  const std::shared_ptr<const SplitPattern> pattern_;
  const SplitBehavior behavior_;
  const bool invert_;
  TextStage* const next_;
  SplitMatcher matcher_;

  // [begin_, searched_) of the buffer is waiting for later text.
  std::string buffer_;
  size_t begin_ = 0, searched_ = 0;
  bool last_matches_ = false;
  // A stretch without a match is searched again when it has doubled, so that searching takes
  // constant time per byte.
  size_t look_again_bytes_ = 0;
};

}  // namespace spillway
