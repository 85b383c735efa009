#include "engine/tokenizers/split_stage.h"

#include "io/base/status.h"

namespace spillway {

absl::Status SplitStage::Text(absl::string_view piece) {
  if (piece.empty()) return absl::OkStatus();
  buffer_.append(piece.data(), piece.size());
  return Split(false);
}

absl::Status SplitStage::EndSegment() {
  RETURN_IF_ERROR(Split(true));
  RETURN_IF_ERROR(Emit(searched_));
  buffer_.clear();
  begin_ = searched_ = look_again_bytes_ = 0;
  last_matches_ = false;
  return next_->EndSegment();  // later stages test whether it was the first
}

void SplitStage::Reset() {
  buffer_.clear();
  begin_ = searched_ = look_again_bytes_ = 0;
  last_matches_ = false;
  next_->Reset();
}

absl::Status SplitStage::Emit(size_t end) {
  if (end == begin_) return absl::OkStatus();
  const absl::string_view piece = absl::string_view(buffer_).substr(begin_, end - begin_);
  begin_ = end;
  return next_->Segment(piece);
}

absl::Status SplitStage::Stretch(size_t end, bool matches) {
  matches = matches != invert_;
  const bool before = last_matches_;
  last_matches_ = matches;
  if (behavior_ == SplitBehavior::kRemoved) {
    searched_ = end;
    if (!matches) return Emit(end);
    begin_ = end;
    return next_->EndSegment();
  }
  const bool joins = behavior_ == SplitBehavior::kContiguous           ? matches == before
                     : behavior_ == SplitBehavior::kMergedWithPrevious ? matches && !before
                                                                       : before && !matches;
  if (!joins || end - begin_ > kMaxHeldBytes) RETURN_IF_ERROR(Emit(searched_));
  searched_ = end;
  return absl::OkStatus();
}

absl::Status SplitStage::Split(bool final) {
  const absl::string_view text = buffer_;
  // Nearly all patterns isolate their matches: nothing waits then.
  const bool isolated = behavior_ == SplitBehavior::kIsolated;
  const auto stretch = [&](size_t end, bool matches) {
    if (!isolated) return Stretch(end, matches);
    begin_ = end;
    const size_t begin = std::exchange(searched_, end);
    return next_->Segment(text.substr(begin, end - begin));
  };
  while (searched_ < text.size()) {
    const absl::string_view rest = text.substr(searched_);
    if (!final && rest.size() < look_again_bytes_ && rest.size() <= kMaxHeldBytes) break;
    // Strictly longer than the limit: this depends on the text, and not on its pieces.
    const size_t end = searched_ + HeldWindow(rest).size();
    const bool full = end < text.size();
    ASSIGN_OR_RETURN(const SplitMatcher::Match match,
                     matcher_.Find(text.substr(0, end), searched_, full || !final));
    using Kind = SplitMatcher::Match::Kind;
    if (match.kind == Kind::kFound) {
      if (match.begin > searched_) RETURN_IF_ERROR(stretch(match.begin, false));
      RETURN_IF_ERROR(stretch(match.end, true));
    } else if (full || final) {
      const bool begins_later = match.kind == Kind::kMore && match.begin > searched_;
      RETURN_IF_ERROR(stretch(begins_later ? match.begin : end, false));
    } else {
      look_again_bytes_ = 2 * rest.size();
      break;
    }
    look_again_bytes_ = 0;
  }
  buffer_.erase(0, begin_);
  searched_ -= begin_;
  begin_ = 0;
  return absl::OkStatus();
}

}  // namespace spillway
