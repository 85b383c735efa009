// Encodes text files of any kind as one sequence of tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/chat/jinja_render.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

struct DataSink {
  // Takes the next tokens. Without loss: tokens of a prompt, which the model reads but does not
  // learn to write.
  std::function<absl::Status(const std::vector<uint32_t>& tokens, bool carry_loss)> take;
  // Called when the next token starts a sample, a line of a .jsonl; may be null.
  std::function<void()> begin_sample = nullptr;
  // Whether EncodeData adds tokens at the start and end of a .jsonl's lines.
  bool begins_lines = true, ends_lines = true;
  // The time for chat templates.
  ChatClock chat_clock = {};
  // Called with the number of bytes read since the last call; may be null.
  std::function<absl::Status(uint64_t bytes)> progress;
};

// Whether a file of this name is text to encode (.txt, .jsonl), or tokens already.
bool IsText(const std::string& path);

// A .txt is one text, as it is. Each record of a .jsonl starts with the tokens that the tokenizer
// adds before a text and ends with the token that ends one (or a newline, if the tokenizer has none
// and a newline is one token). PairEncoder encodes a prompt and its completion. A conversation's
// text is encoded as a whole; a token across the end of an assistant's turn belongs to the
// following text. Warns of texts that already contain such a first or last token. Memory is bounded
// by a piece and a line. The sink's first error ends it. REQUIRES: IsText(path).
absl::Status EncodeData(const std::string& path, const Tokenizer& tokenizer, const DataSink& sink);

}  // namespace spillway
