#include "engine/tokenizers/pair_encoder.h"

#include <algorithm>

#include "engine/base/stop_signal.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr size_t kPairPieceBytes = 256 << 10;

// Calls `take` with each piece, and whether it is the last; at least once.
template <typename Take>
absl::Status InPairPieces(absl::string_view text, const Take& take) {
  do {
    RETURN_IF_ERROR(StopSignal::Check());
    const absl::string_view piece = text.substr(0, kPairPieceBytes);
    text.remove_prefix(piece.size());
    RETURN_IF_ERROR(take(piece, text.empty()));
  } while (!text.empty());
  return absl::OkStatus();
}

}  // namespace

void PairEncoder::EncodeWhole(absl::string_view piece, bool ends) {
  if (!same_) return;
  if (whole_encoder_ == nullptr) whole_encoder_ = tokenizer_.NewEncoder("the text");
  absl::Status status = whole_encoder_->Encode(piece, &whole_);
  if (status.ok() && ends) status = whole_encoder_->Finish(&whole_);
  same_ = status.ok();
  Compare();
  // Its text is unfinished.
  if (!same_) whole_encoder_ = nullptr;
}

void PairEncoder::Compare() {
  const size_t count = std::min(alone_.size(), whole_.size());
  const auto end = alone_.begin() + static_cast<std::ptrdiff_t>(count);
  same_ &= std::equal(alone_.begin(), end, whole_.begin());
  alone_.erase(alone_.begin(), end);
  whole_.erase(whole_.begin(), whole_.begin() + static_cast<std::ptrdiff_t>(count));
}

absl::Status PairEncoder::Encode(absl::string_view prompt, absl::string_view completion,
                                 const Take& take) {
  if (part_encoder_ == nullptr) part_encoder_ = tokenizer_.NewEncoder("the text");
  alone_.clear();
  whole_.clear();
  same_ = true;
  std::vector<uint32_t> tokens;
  const auto encode_part = [&](absl::string_view piece, bool ends) -> absl::Status {
    tokens.clear();
    RETURN_IF_ERROR(part_encoder_->Encode(piece, &tokens));
    return ends ? part_encoder_->Finish(&tokens) : absl::OkStatus();
  };
  RETURN_IF_ERROR(InPairPieces(prompt, [&](absl::string_view piece, bool ends) -> absl::Status {
    RETURN_IF_ERROR(encode_part(piece, ends));
    if (same_) alone_.insert(alone_.end(), tokens.begin(), tokens.end());
    EncodeWhole(piece, false);
    return take(tokens, /*of_prompt=*/true);
  }));
  RETURN_IF_ERROR(InPairPieces(completion, [&](absl::string_view piece, bool ends) -> absl::Status {
    EncodeWhole(piece, ends);
    if (!same_ || !alone_.empty()) return absl::OkStatus();
    tokens.swap(whole_);
    whole_.clear();
    return take(tokens, /*of_prompt=*/false);
  }));
  if (same_ && alone_.empty()) return absl::OkStatus();
  part_encoder_->Continue();
  return InPairPieces(completion, [&](absl::string_view piece, bool ends) -> absl::Status {
    RETURN_IF_ERROR(encode_part(piece, ends));
    return take(tokens, /*of_prompt=*/false);
  });
}

}  // namespace spillway
