#include "engine/tokenizers/text_decoder.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// `text` without as many characters as `prompt` has.
std::string BehindPrompt(absl::string_view text, absl::string_view prompt) {
  if (absl::ConsumePrefix(&text, prompt)) return std::string(text);
  const auto begins = [](char c) { return (c & 0xc0) != 0x80; };
  auto left = std::count_if(prompt.begin(), prompt.end(), begins);
  size_t at = 0;
  while (at < text.size() && (left > 0 || !begins(text[at]))) left -= begins(text[at++]);
  return std::string(text.substr(at));
}

}  // namespace

absl::Status TextDecoder::Begin(std::vector<int64_t> prompt) {
  if (tokenizer_->decodes_one_by_one()) {
    // Bytes of a character that the prompt starts and does not complete.
    constexpr size_t kMostTokensOfCharacter = 4;
    const size_t last = std::min(kMostTokensOfCharacter, prompt.size());
    ASSIGN_OR_RETURN(const std::string bytes,
                     tokenizer_->Decode(absl::MakeConstSpan(prompt).last(last)));
    (void)repair_.Next(bytes);
    Utf8Repair alone;
    (void)alone.Next(bytes);
    prompt_is_open_ = !alone.Finish().empty();
    follows_prompt_ = true;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string whole, tokenizer_->Decode(prompt));
  // Only the end of a long prompt is decoded with each following token. Its text is the same as in
  // the whole, except for what decoders drop at a start.
  constexpr size_t kFewTokens = 64;
  for (size_t count = kFewTokens;; count *= 2) {
    tokens_.assign(prompt.end() - static_cast<std::ptrdiff_t>(std::min(count, prompt.size())),
                   prompt.end());
    ASSIGN_OR_RETURN(prompt_text_, tokenizer_->Decode(tokens_));
    const bool says_enough = !prompt_text_.empty() && absl::EndsWith(whole, prompt_text_);
    if (says_enough || count >= prompt.size()) return absl::OkStatus();
  }
}

absl::StatusOr<std::string> TextDecoder::Next(int64_t token) {
  if (tokenizer_->decodes_one_by_one()) {
    ASSIGN_OR_RETURN(const std::string bytes, tokenizer_->Decode({&token, 1}));
    const std::string piece(WithoutPrompts(repair_.Next(bytes)));
    absl::StrAppend(&text_, piece);
    return piece;
  }
  tokens_.push_back(token);
  ASSIGN_OR_RETURN(const std::string all, tokenizer_->Decode(tokens_));
  text_ = BehindPrompt(all, prompt_text_);
  // Trailing invalid bytes may become a character; those of a returned character may become
  // invalid.
  absl::string_view settled = text_;
  while (absl::ConsumeSuffix(&settled, kReplacementCharacter)) {
  }
  const bool pending = settled.size() < text_.size();
  if (pending && !absl::StartsWith(text_, given_)) return "";
  return Give(settled.size());
}

std::string TextDecoder::Finish() {
  if (tokenizer_->decodes_one_by_one()) {
    const std::string rest(WithoutPrompts(repair_.Finish()));
    absl::StrAppend(&text_, rest);
    return rest;
  }
  return Give(text_.size());
}

absl::string_view TextDecoder::WithoutPrompts(absl::string_view piece) {
  if (!follows_prompt_ || piece.empty()) return piece;
  follows_prompt_ = false;
  if (prompt_is_open_) absl::ConsumePrefix(&piece, kReplacementCharacter);
  return piece;
}

std::string TextDecoder::Give(size_t end) {
  size_t begin = given_.size();
  if (!absl::StartsWith(text_, given_)) {
    // A following byte has made a returned character invalid: its U+FFFD is new.
    const size_t last = absl::string_view(text_).rfind(kReplacementCharacter);
    begin = std::min(last != std::string::npos ? last : begin, end);
    while (begin < end && (text_[begin] & 0xc0) == 0x80) ++begin;
  }
  if (end <= begin) return "";
  given_ = text_.substr(0, end);
  return text_.substr(begin, end - begin);
}

}  // namespace spillway
