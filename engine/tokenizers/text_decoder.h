// Tokens back to text, one by one, as whole characters.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/utf8_repair.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

// A token of a byte-level tokenizer may end in the middle of a character: what it begins
// waits for the tokens that end it. Where the text of a token depends on those before, all
// are decoded again for each. One thread; the tokenizer must outlive it.
class TextDecoder {
 public:
  explicit TextDecoder(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  // The tokens that follow continue a text that begins with these: their text is that of all
  // together without as many characters as these have alone, as transformers' pipelines write it.
  // So a space that a decoder drops from the beginning of a text is kept behind a prompt.
  // kInvalidArgument as of Next. REQUIRES: nothing was decoded yet.
  absl::Status Begin(std::vector<int64_t> prompt);

  // The characters that `token` completes, often none. Valid UTF-8: bytes that are none
  // become U+FFFD. What was given stays given, though bytes in a row may turn out to be no text
  // after all: `whole` has them right. kInvalidArgument for a token outside the vocabulary.
  absl::StatusOr<std::string> Next(int64_t token);

  // What is left at the end: "", or U+FFFD for characters that never became whole.
  std::string Finish();

  // After Finish: the text of all tokens that Next got, decoded at once.
  const std::string& whole() const { return text_; }

 private:
  // The first characters behind a prompt without the U+FFFD of a character that the prompt begins
  // and nothing completes: that one is the prompt's.
  absl::string_view WithoutPrompts(absl::string_view piece);
  // What has not been given of the first `end` bytes.
  std::string Give(size_t end);

  const Tokenizer* const tokenizer_;
  Utf8Repair repair_;
  bool follows_prompt_ = false;  // nothing was given yet behind a prompt...
  bool prompt_is_open_ = false;  // ... whose last character is not whole
  // Where they are not decoded one by one: all tokens, of a prompt its end, and the text of that.
  std::vector<int64_t> tokens_;
  std::string prompt_text_;
  std::string text_;   // of the tokens behind the prompt
  std::string given_;  // how much of it has been given, as it stood then
};

}  // namespace spillway
