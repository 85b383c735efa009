#include "engine/tokenizers/model_stage.h"

#include "engine/base/utf8.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Shorter words are not searched for cuts: encoders cache them.
constexpr size_t kShortWordBytes = 31;

}  // namespace

absl::Status ModelStage::Encode(bool ends) {
  const absl::string_view text = held_;
  size_t begin = 0;
  const bool bytes = cuts_ != nullptr && cuts_->bytes();
  const auto take = [&](size_t* at) -> uint32_t {
    return bytes ? static_cast<unsigned char>(text[(*at)++]) : TakeCodePoint(text, at);
  };
  while (searched_ < text.size()) {
    size_t next = searched_;
    const uint32_t unit = take(&next);
    if (next == text.size() && !ends) break;
    bool cut = next == text.size();
    if (!cut) {
      size_t after = next;
      const uint32_t following = take(&after);
      cut = after - begin > kMaxHeldBytes ||
            (cuts_ != nullptr && next - begin >= model_->least_cut_bytes() &&
             cuts_->MayCut(unit, following));
    }
    searched_ = next;
    if (!cut) continue;
    RETURN_IF_ERROR(encoder_->Encode(text.substr(begin, next - begin), tokens_));
    begin = next;
  }
  held_.erase(0, begin);
  searched_ -= begin;
  return absl::OkStatus();
}

absl::Status ModelStage::Text(absl::string_view piece) {
  held_.append(piece.data(), piece.size());
  if (model_->long_word() == WordModel::LongWord::kTruncate) {
    held_.resize(HeldWindow(held_).size());
    return absl::OkStatus();
  }
  return held_.size() > kShortWordBytes ? Encode(false) : absl::OkStatus();
}

absl::Status ModelStage::EndSegment() {
  if (held_.empty()) return absl::OkStatus();
  if (searched_ > 0 || held_.size() > kShortWordBytes) {
    if (model_->long_word() == WordModel::LongWord::kCut) return Encode(true);
  }
  const absl::Status status = encoder_->Encode(held_, tokens_);
  held_.clear();
  return status;
}

absl::Status ModelStage::Segment(absl::string_view word) {
  if (word.empty()) return absl::OkStatus();
  if (word.size() <= (cuts_ == nullptr ? kMaxHeldBytes : kShortWordBytes)) {
    return encoder_->Encode(word, tokens_);
  }
  return TextStage::Segment(word);
}

absl::Status ModelStage::Token(uint32_t token) {
  tokens_->push_back(token);
  return absl::OkStatus();
}

void ModelStage::Reset() {
  held_.clear();
  searched_ = 0;
}

}  // namespace spillway
