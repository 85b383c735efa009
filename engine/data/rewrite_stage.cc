#include "engine/data/rewrite_stage.h"

#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<std::string> RewriteAll(const std::vector<Rewrite>& rewrites, std::string text) {
  for (const Rewrite& rewrite : rewrites) {
    if (text.empty()) break;
    std::string out;
    RETURN_IF_ERROR(
        rewrite(text, {.begins_text = true, .begins = true, .ends = true}, &out).status());
    text = std::move(out);
  }
  return text;
}

absl::Status RewriteStage::Run(bool ends) {
  size_t at = 0;
  while (at < held_.size()) {
    const absl::string_view rest = absl::string_view(held_).substr(at);
    // Never more than this, so that where the pieces end plays no part.
    const absl::string_view window = HeldWindow(rest);
    const bool whole = window.size() == rest.size();
    TextPlace place{.begins_text = begins_text_, .begins = begins_, .ends = ends && whole};
    out_.clear();
    ASSIGN_OR_RETURN(size_t taken, rewrite_(window, place, &out_));
    if (taken == 0 && !whole) {
      place.ends = true;
      ASSIGN_OR_RETURN(taken, rewrite_(window, place, &out_));
    }
    SPILLWAY_CHECK(taken <= window.size() && (!place.ends || taken == window.size()));
    at += taken;
    if (!out_.empty()) {
      begins_ = false;
      RETURN_IF_ERROR(next_->Text(out_));
    }
    if (whole) break;
  }
  held_.erase(0, at);
  return absl::OkStatus();
}

absl::Status RewriteStage::Text(absl::string_view piece) {
  held_.append(piece.data(), piece.size());
  return Run(false);
}

absl::Status RewriteStage::EndSegment() {
  RETURN_IF_ERROR(Run(true));
  begins_text_ = false;
  begins_ = true;
  return next_->EndSegment();
}

absl::Status RewriteStage::Token(uint32_t token) {
  begins_text_ = false;
  return next_->Token(token);
}

void RewriteStage::Reset() {
  held_.clear();
  begins_text_ = begins_ = true;
  next_->Reset();
}

}  // namespace spillway
