#include "engine/data/text_decoder.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<std::string> TextDecoder::Next(int64_t token) {
  if (tokenizer_->decodes_one_by_one()) {
    ASSIGN_OR_RETURN(const std::string bytes, tokenizer_->Decode({&token, 1}));
    const absl::string_view piece = repair_.Next(bytes);
    absl::StrAppend(&text_, piece);
    return std::string(piece);
  }
  tokens_.push_back(token);
  ASSIGN_OR_RETURN(text_, tokenizer_->Decode(tokens_));
  // Bytes that are no character yet may become one, and those of one that was given be one again.
  absl::string_view settled = text_;
  while (absl::ConsumeSuffix(&settled, kReplacementCharacter)) {
  }
  const bool pending = settled.size() < text_.size();
  if (pending && !absl::StartsWith(text_, given_)) return "";
  return Give(settled.size());
}

std::string TextDecoder::Finish() {
  if (tokenizer_->decodes_one_by_one()) {
    const std::string rest(repair_.Finish());
    absl::StrAppend(&text_, rest);
    return rest;
  }
  return Give(text_.size());
}

std::string TextDecoder::Give(size_t end) {
  size_t begin = given_.size();
  if (!absl::StartsWith(text_, given_)) {
    // A character that was given has become no text, by a byte that followed: that one is new.
    const size_t last = absl::string_view(text_).rfind(kReplacementCharacter);
    begin = std::min(last != std::string::npos ? last : begin, end);
    while (begin < end && (text_[begin] & 0xc0) == 0x80) ++begin;
  }
  if (end <= begin) return "";
  given_ = text_.substr(0, end);
  return text_.substr(begin, end - begin);
}

}  // namespace spillway
