// Parses Hugging Face's tokenizer.json. docs/DATA.md lists the supported parts.
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

// Limit of the file's size. Gemma's has 33 MB, Llama 3's 17.
inline constexpr size_t kMaxTokenizerJsonBytes = 64u << 20;

// The parts of a tokenizer in the order of encoding.
struct TokenizerParts {
  std::string kind;                 // the model's: "bpe", "unigram", "wordpiece", "wordlevel"
  std::vector<std::string> tokens;  // as written; "" for an id without a token
  std::vector<AddedToken> added;    // those that match in normalised text are normalised
  int64_t declared = 0;             // how many of `tokens`, the last ones, only other files declare
  std::vector<Rewrite> normalizers;
  std::vector<StageMaker> pre_tokenizers;
  std::shared_ptr<const WordModel> model;
  TokenTemplate around;
  TokenDecoder decoder;
  // The mask token, declared in the files beside tokenizer.json.
  std::optional<uint32_t> mask = std::nullopt;
  uint64_t digest = 0;                     // of everything that affects encoding
  std::vector<std::string> notices = {};   // about tokens that only other files declare
  std::vector<std::string> warnings = {};  // about ignored parts
};

// kInvalidArgument with the line for an invalid tokenizer.json; kUnimplemented for unsupported
// features: the message names what, where, and the alternative. A pure function; `text` may be
// anything. `file` is for messages. `declared`: the tokens of the files beside it.
absl::StatusOr<TokenizerParts> ParseTokenizerJson(absl::string_view text, absl::string_view file,
                                                  const DeclaredTokens& declared = {});

}  // namespace spillway
