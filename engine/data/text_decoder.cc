#include "engine/data/text_decoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<std::string> TextDecoder::Next(int64_t token) {
  if (tokenizer_->decodes_one_by_one()) {
    ASSIGN_OR_RETURN(const std::string bytes, tokenizer_->Decode({&token, 1}));
    return std::string(repair_.Next(bytes));
  }
  tokens_.push_back(token);
  ASSIGN_OR_RETURN(const std::string text, tokenizer_->Decode(tokens_));
  // What has been given stays given: bytes in a row may turn out to be no text after all.
  if (!absl::StartsWith(text, absl::string_view(text_).substr(0, given_bytes_))) return "";
  text_ = text;
  // Bytes that are no character yet may become one.
  absl::string_view whole = text;
  while (absl::ConsumeSuffix(&whole, "\xef\xbf\xbd")) {
  }
  const size_t begin = std::exchange(given_bytes_, std::max(given_bytes_, whole.size()));
  return text_.substr(begin, given_bytes_ - begin);
}

std::string TextDecoder::Finish() {
  return absl::StrCat(repair_.Finish(), text_.substr(given_bytes_));
}

}  // namespace spillway
