// Tokens back to text, one by one, as whole characters.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/tokenizer.h"
#include "engine/data/utf8_repair.h"

namespace spillway {

// A token of a byte-level tokenizer may end in the middle of a character: what it begins
// waits for the tokens that end it. Where the text of a token depends on those before, all
// are decoded again for each. One thread; the tokenizer must outlive it.
class TextDecoder {
 public:
  explicit TextDecoder(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  // The characters that `token` completes, often none. Valid UTF-8: bytes that are none
  // become U+FFFD. kInvalidArgument for a token outside the vocabulary.
  absl::StatusOr<std::string> Next(int64_t token);

  // What is left at the end: "", or U+FFFD for characters that never became whole.
  std::string Finish();

 private:
  const Tokenizer* const tokenizer_;
  Utf8Repair repair_;
  std::vector<int64_t> tokens_;  // all, where they are not decoded one by one,
  std::string text_;             // what they are,
  size_t given_bytes_ = 0;       // and how much of it has been given
};

}  // namespace spillway
