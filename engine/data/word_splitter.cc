#include "engine/data/word_splitter.h"

#include "io/base/status.h"

namespace spillway {

absl::Status WordSplitter::Text(absl::string_view piece) {
  if (piece.empty()) return absl::OkStatus();
  if (segment_begins_ && add_prefix_space_ && piece[0] != ' ') buffer_ += ' ';
  segment_begins_ = false;
  buffer_.append(piece.data(), piece.size());
  return Split(false);
}

absl::Status WordSplitter::EndSegment() {
  const absl::Status status = Split(true);
  buffer_.clear();
  look_again_bytes_ = 0;
  segment_begins_ = true;
  return status;
}

absl::Status WordSplitter::Token(uint32_t token) {
  tokens_->push_back(token);
  return absl::OkStatus();
}

void WordSplitter::Reset() {
  buffer_.clear();
  look_again_bytes_ = 0;
  segment_begins_ = true;
}

absl::Status WordSplitter::Split(bool final) {
  const absl::string_view text = buffer_;
  size_t at = 0;
  const auto word_to = [&](size_t end) {
    const absl::Status status = encoder_.Encode(text.substr(at, end - at), tokens_);
    at = end;
    return status;
  };
  while (at < text.size()) {
    const size_t left_bytes = text.size() - at;
    // Strictly more than a word may have: a pure matter of the text, not of its pieces.
    const bool full = left_bytes > kMaxHeldBytes;
    if (!full && !final && left_bytes < look_again_bytes_) break;
    size_t end = text.size();
    if (full) {
      end = at + kMaxHeldBytes;
      while ((text[end] & 0xc0) == 0x80) --end;
    }
    ASSIGN_OR_RETURN(const SplitMatcher::Match match,
                     matcher_.Find(text.substr(0, end), at, full || !final));
    using Kind = SplitMatcher::Match::Kind;
    if (match.kind == Kind::kFound) {
      if (match.begin > at) RETURN_IF_ERROR(word_to(match.begin));
      RETURN_IF_ERROR(word_to(match.end));
      look_again_bytes_ = 0;
    } else if (full || final) {
      const bool begins_later = match.kind == Kind::kMore && match.begin > at;
      RETURN_IF_ERROR(word_to(begins_later ? match.begin : end));
      look_again_bytes_ = 0;
    } else {
      look_again_bytes_ = 2 * left_bytes;
      break;
    }
  }
  buffer_.erase(0, at);
  return absl::OkStatus();
}

}  // namespace spillway
