#include "engine/tokenizers/rewrite_stage.h"

#include "absl/strings/str_cat.h"
#include "engine/base/stop_signal.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// How much text is rewritten at a time, and handed on: what many stages hold together stays small.
constexpr size_t kRewriteBytes = 64 << 10;

}  // namespace

absl::Status CheckTextGrowth(uint64_t given_bytes, uint64_t made_bytes) {
  constexpr uint64_t kMostTimes = 64;
  if (made_bytes <= kMostTimes * given_bytes + kMaxHeldBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the tokenizer's normalizer makes far more text than it is given");
}

absl::StatusOr<std::string> RewriteAll(const std::vector<Rewrite>& rewrites, std::string text,
                                       size_t most_bytes) {
  const size_t given_bytes = text.size();
  for (const Rewrite& rewrite : rewrites) {
    if (text.empty()) break;
    RETURN_IF_ERROR(StopSignal::Check());
    std::string out;
    RETURN_IF_ERROR(
        rewrite(text, {.begins_text = true, .begins = true, .ends = true}, &out).status());
    RETURN_IF_ERROR(CheckTextGrowth(given_bytes, out.size()));
    if (out.size() > most_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the tokenizer's normalizer makes more than ", most_bytes, " bytes of it"));
    }
    text = std::move(out);
  }
  return text;
}

absl::Status RewriteStage::Run(bool ends) {
  size_t at = 0;
  size_t most = kRewriteBytes;
  while (at < held_.size()) {
    RETURN_IF_ERROR(StopSignal::Check());
    const absl::string_view rest = absl::string_view(held_).substr(at);
    // Never more than kMaxHeldBytes, so that where the pieces end plays no part.
    const absl::string_view window = HeldWindow(rest, most);
    const bool whole = window.size() == rest.size();
    TextPlace place{.begins_text = begins_text_, .begins = begins_, .ends = ends && whole};
    out_.clear();
    ASSIGN_OR_RETURN(size_t taken, rewrite_(window, place, &out_));
    if (taken == 0 && !whole && most < kMaxHeldBytes) {
      most = kMaxHeldBytes;
      continue;
    }
    if (taken == 0 && !whole) {
      place.ends = true;
      ASSIGN_OR_RETURN(taken, rewrite_(window, place, &out_));
    }
    SPILLWAY_CHECK(taken <= window.size() && (!place.ends || taken == window.size()));
    at += taken;
    most = kRewriteBytes;
    made_bytes_ += out_.size();
    RETURN_IF_ERROR(CheckTextGrowth(*given_bytes_, made_bytes_));
    if (!out_.empty()) begins_ = false;
    for (absl::string_view made = out_; !made.empty();) {
      const absl::string_view part = HeldWindow(made, kRewriteBytes);
      RETURN_IF_ERROR(next_->Text(part));
      made.remove_prefix(part.size());
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

void RewriteStage::Continue() {
  begins_text_ = begins_ = false;
  next_->Continue();
}

void RewriteStage::Reset() {
  held_.clear();
  made_bytes_ = 0;
  begins_text_ = begins_ = true;
  next_->Reset();
}

}  // namespace spillway
