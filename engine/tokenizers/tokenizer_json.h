// Hugging Face's tokenizer.json. docs/DATA.md lists what is taken.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/tokenizers/added_tokens.h"
#include "engine/tokenizers/declared_tokens.h"
#include "engine/tokenizers/rewrite_stage.h"
#include "engine/tokenizers/text_stage.h"
#include "engine/tokenizers/token_decoder.h"
#include "engine/tokenizers/token_template.h"
#include "engine/tokenizers/word_model.h"

namespace spillway {

// Gemma's has 33 MB, Llama 3's 17.
inline constexpr size_t kMaxTokenizerJsonBytes = 64u << 20;

// The parts of a tokenizer, in the order in which a text meets them.
struct TokenizerParts {
  std::string kind;                 // of the model: "bpe", "unigram", "wordpiece", "wordlevel"
  std::vector<std::string> tokens;  // as written; an id that nothing has is an empty string
  std::vector<AddedToken> added;    // those to be found in normalised text are normalised
  int64_t declared = 0;             // of `tokens`, the last ones, that only other files declare
  std::vector<Rewrite> normalizers;
  std::vector<StageMaker> pre_tokenizers;
  std::shared_ptr<const WordModel> model;
  TokenTemplate around;
  TokenDecoder decoder;
  // Which token stands where another is to be found; the files beside a tokenizer.json say it.
  std::optional<uint32_t> mask = std::nullopt;
  uint64_t digest = 0;                     // of all that decides which tokens a text has
  std::vector<std::string> notices = {};   // of tokens that only other files declare
  std::vector<std::string> warnings = {};  // of what is left out
};

// kInvalidArgument for what is no tokenizer.json, with the line; kUnimplemented for one that
// asks for what is not supported: the message names what, where, and what to do instead. A
// pure function; any text at all may be given. `file` is for messages. `declared`: what the files
// beside it add.
absl::StatusOr<TokenizerParts> ParseTokenizerJson(absl::string_view text, absl::string_view file,
                                                  const DeclaredTokens& declared = {});

}  // namespace spillway
