#include "engine/data/masked_texts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/stop_signal.h"
#include "engine/data/labelled_text.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<int64_t> MaskTokenOf(const Tokenizer* tokenizer) {
  if (tokenizer != nullptr && tokenizer->mask_token()) return int64_t{*tokenizer->mask_token()};
  return absl::InvalidArgumentError(absl::StrCat(
      tokenizer == nullptr ? "no tokenizer is given"
                           : absl::StrCat("the tokenizer (", std::string(tokenizer->kind()),
                                          ") has no token that masks others"),
      ": a masked language model needs one, such as \"[MASK]\" or \"<mask>\": give --tokenizer DIR "
      "with a tokenizer.json that has it (mask_token in tokenizer_config.json names another)"));
}

absl::StatusOr<std::unique_ptr<MaskedTexts>> MaskedTexts::Lay(const TokenSource* source,
                                                              const MaskedTextsOptions& options) {
  RETURN_IF_ERROR(MaskTokenOf(options.tokenizer).status());
  std::unique_ptr<MaskedTexts> texts(new MaskedTexts(source, options));
  EncodedText around = options.tokenizer->Around({}, std::nullopt);
  RETURN_IF_ERROR(FitToModel(*options.tokenizer, *options.config, around));
  texts->room_ = options.seq_len - static_cast<int64_t>(around.tokens.size());
  if (texts->room_ < 1) return NoRoomError(options.seq_len);
  if (options.lines) {
    ASSIGN_OR_RETURN(const int64_t cut, texts->FindLines());
    WarnOfCut(source->names(), cut, texts->size(), "lines", "--seq-len", options.seq_len);
  } else {
    texts->windows_ = source->size() / texts->room_;
    texts->longest_ = options.seq_len;
    texts->tokens_ = texts->windows_ * options.seq_len;
    if (texts->windows_ == 0) RETURN_IF_ERROR(source->CheckWindow(texts->room_));
  }
  return texts;
}

absl::StatusOr<int64_t> MaskedTexts::FindLines() {
  SPILLWAY_CHECK(source_.has_samples());
  ASSIGN_OR_RETURN(ScratchRows lines, ScratchRows::Create(options_.scratch_directory));
  const int64_t around = options_.seq_len - room_;
  std::vector<int64_t> tokens(64 << 10);
  std::vector<uint8_t> marks(tokens.size());
  int64_t begin = 0, cut = 0;
  const auto end_line = [&](int64_t end) -> absl::Status {
    if (end == begin) return absl::OkStatus();
    cut += end - begin > room_;
    const int64_t kept = std::min(room_, end - begin);
    longest_ = std::max(longest_, kept + around);
    tokens_ += kept + around;
    return lines.Append({begin, kept});
  };
  for (int64_t first = 0; first < source_.size(); first += static_cast<int64_t>(tokens.size())) {
    RETURN_IF_ERROR(StopSignal::Check());
    const int64_t n = std::min(static_cast<int64_t>(tokens.size()), source_.size() - first);
    RETURN_IF_ERROR(source_.Read(first, n, tokens.data(), marks.data()));
    for (int64_t i = 0; i < n; ++i) {
      if ((marks[static_cast<size_t>(i)] & kMarkBegin) == 0) continue;
      RETURN_IF_ERROR(end_line(first + i));
      begin = first + i;
    }
  }
  RETURN_IF_ERROR(end_line(source_.size()));
  RETURN_IF_ERROR(lines.Flush());
  lines_ = std::make_unique<ScratchRows>(std::move(lines));
  return cut;
}

absl::StatusOr<MaskedTexts::Text> MaskedTexts::Get(int64_t number) const {
  SPILLWAY_CHECK(number >= 0 && number < size());
  int64_t first = number * room_, count = room_;
  if (lines_) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> line, lines_->Read(number));
    first = line[0];
    count = line[1];
  }
  std::vector<int64_t> tokens(static_cast<size_t>(count));
  std::vector<uint8_t> marks(tokens.size());
  RETURN_IF_ERROR(source_.Read(first, count, tokens.data(), marks.data()));
  Text text;
  text.encoded = options_.tokenizer->Around(tokens, std::nullopt);
  RETURN_IF_ERROR(FitToModel(*options_.tokenizer, *options_.config, text.encoded));
  size_t own = 0;  // index among the tokens that are not added
  for (size_t i = 0; i < text.encoded.tokens.size(); ++i) {
    const bool inside = text.encoded.sources[i] == 0;
    const bool may = inside && (marks[own] & kMarkWithoutLoss) == 0 &&
                     !options_.tokenizer->IsSpecial(text.encoded.tokens[i]);
    own += inside;
    text.may.push_back(may);
  }
  return text;
}

std::string MaskedTexts::fingerprint() const {
  return absl::StrCat(source_.fingerprint(), lines_ ? absl::StrCat("/", lines_->digest()) : "");
}

}  // namespace spillway
