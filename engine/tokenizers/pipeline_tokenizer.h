// A tokenizer from a tokenizer.json: a pipeline of the stages of engine/tokenizers/text_stage.h.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/tokenizers/tokenizer.h"
#include "engine/tokenizers/tokenizer_json.h"

namespace spillway {

struct TokenizerFiles {
  // The directory of tokenizer.json and the files beside it, for Save; "": saving is impossible.
  std::string directory;
  // Checksum of tokenizer.json as it was read.
  uint64_t checksum = 0;
  // eos_token in saved files; "": unchanged.
  std::string end_of_text = {};
};

// The files of a tokenizer.
inline constexpr const char* kTokenizerJsonFiles[] = {
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
    "chat_template.json", "chat_template.jinja",
    // required
    "tokenizer.json"};

// Any text can be encoded: invalid UTF-8 becomes U+FFFD, with one warning when the text ends.
// Tokens are produced as pieces arrive, and do not depend on the pieces. Save copies existing files
// of kTokenizerJsonFiles; kFailedPrecondition if tokenizer.json has changed. An invalid chat
// template is an error only for conversations.
std::unique_ptr<Tokenizer> NewPipelineTokenizer(
    TokenizerParts parts, std::optional<uint32_t> end_of_text, TokenizerFiles files,
    absl::StatusOr<ChatFormat> chat = absl::NotFoundError("the tokenizer has no chat template"));

// Loads `directory`'s tokenizer.json and the tokens that the files beside it declare
// (ReadDeclaredTokens). The end of a text is `end_of_text`, which must be a token, or else the
// first that is set of: the declared eos_token; eos_token of special_tokens_map.json; eos_token_id
// of config.json, then of generation_config.json; a token "<|endoftext|>". The mask token likewise:
// mask_token; "[MASK]"; "<mask>".
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadPipelineTokenizer(
    absl::string_view directory, const std::string& end_of_text = "");

}  // namespace spillway
