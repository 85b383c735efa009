// Decodes tokens one by one to text in whole characters.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/utf8_repair.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

// A token of a byte-level tokenizer may end within a character, which then waits for the tokens
// that complete it. If a token's text depends on previous ones, all are decoded again for each. One
// thread; the tokenizer must outlive it.
class TextDecoder {
 public:
  explicit TextDecoder(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  // Sets the prompt that the next tokens continue. Their text is that of all tokens without as many
  // characters as the prompt has alone, like in transformers' pipelines: so a space that a decoder
  // drops at the start of a text is kept after a prompt. kInvalidArgument as in Next. REQUIRES:
  // nothing was decoded yet.
  absl::Status Begin(std::vector<int64_t> prompt);

  // The characters that `token` completes, often none. Valid UTF-8: invalid bytes become U+FFFD.
  // Returned text is final, even if later bytes show that it was wrong; `whole` is right.
  // kInvalidArgument for a token outside the vocabulary.
  absl::StatusOr<std::string> Next(int64_t token);

  // The rest at the end: "", or U+FFFD for incomplete characters.
  std::string Finish();

  // After Finish: the text of all tokens that Next received, decoded at once.
  const std::string& whole() const { return text_; }

 private:
  // The first text after a prompt, without the U+FFFD of a character that the prompt starts and
  // nothing completes.
  absl::string_view WithoutPrompts(absl::string_view piece);
  // The part of the first `end` bytes that has not been returned.
  std::string Give(size_t end);

  const Tokenizer* const tokenizer_;
  Utf8Repair repair_;
  bool follows_prompt_ = false;  // no text was returned yet after a prompt...
  bool prompt_is_open_ = false;  // ... whose last character is incomplete
  // Without decoding one by one: all tokens, the last ones of a prompt, and the prompt's text.
  std::vector<int64_t> tokens_;
  std::string prompt_text_;
  std::string text_;   // of the tokens after the prompt
  std::string given_;  // the returned text, as it was then
};

}  // namespace spillway
