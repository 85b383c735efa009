// Texts of any kind as one sequence of tokens.
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
  // Tokens that follow those before. Without loss: those of a prompt, which the model
  // reads but does not learn to write.
  std::function<absl::Status(const std::vector<uint32_t>& tokens, bool carry_loss)> take;
  // A sample, a line of a .jsonl, begins with the next token that is taken; may be null.
  std::function<void()> begin_sample = nullptr;
  // Whether a line of a .jsonl begins and ends as EncodeData says it; otherwise nothing is put
  // there.
  bool begins_lines = true, ends_lines = true;
  // The time that a chat template writes.
  ChatClock chat_clock = {};
  // Told how many bytes of the file have been read on; may be null.
  std::function<absl::Status(uint64_t bytes)> progress;
};

// Whether a file of this name is encoded (.txt, .jsonl) or holds tokens already.
bool IsText(const std::string& path);

// A .txt is one text, as it is. Each record of a .jsonl begins with what the tokenizer puts before
// a text and ends with the token that ends one (tokenizers without it: a newline, if that is one
// token). A prompt and its completion are encoded by PairEncoder. A conversation has the tokens of
// its text as a whole; one that lies across an end of the assistant's turn counts as what follows.
// Warns of texts that begin or end with a token that is put there anyway. Memory is bounded by a
// piece and a line. The sink's first error ends it. REQUIRES: IsText(path).
absl::Status EncodeData(const std::string& path, const Tokenizer& tokenizer, const DataSink& sink);

}  // namespace spillway
