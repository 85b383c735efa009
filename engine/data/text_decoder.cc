#include "engine/data/text_decoder.h"

#include "io/base/status.h"

namespace spillway {

absl::StatusOr<std::string> TextDecoder::Next(int64_t token) {
  ASSIGN_OR_RETURN(const std::string bytes, tokenizer_->Decode({&token, 1}));
  return std::string(repair_.Next(bytes));
}

std::string TextDecoder::Finish() { return std::string(repair_.Finish()); }

}  // namespace spillway
