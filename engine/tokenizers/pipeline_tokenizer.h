// A tokenizer.json as a tokenizer: the stages of engine/tokenizers/text_stage.h in line.
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
  // Where tokenizer.json and the files beside it lie, for Save; empty: nothing can be saved.
  std::string directory;
  // Of tokenizer.json as it was read.
  uint64_t checksum = 0;
  // eos_token as Save writes it; "": as the files have it.
  std::string end_of_text = {};
};

// What a tokenizer is kept in.
inline constexpr const char* kTokenizerJsonFiles[] = {
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
    "chat_template.json", "chat_template.jinja",
    // Where it is, the others are.
    "tokenizer.json"};

// A text may hold anything: what is no UTF-8 becomes U+FFFD, with one warning when the
// text ends. Tokens come as the text goes on, and are the same whatever its pieces are.
//
// Save copies those of kTokenizerJsonFiles that there are; kFailedPrecondition when tokenizer.json
// has changed since.
// A chat template that can't be had is an error where a conversation comes, and only there.
std::unique_ptr<Tokenizer> NewPipelineTokenizer(
    TokenizerParts parts, std::optional<uint32_t> end_of_text, TokenizerFiles files,
    absl::StatusOr<ChatFormat> chat = absl::NotFoundError("the tokenizer has no chat template"));

// From `directory`'s tokenizer.json and the tokens that the files beside it declare
// (ReadDeclaredTokens). What ends a text is `end_of_text`, which must be a token, or else the first
// of these that names one: eos_token as it is declared, of special_tokens_map.json; eos_token_id of
// config.json, of generation_config.json; a token "<|endoftext|>". What masks one likewise:
// mask_token; "[MASK]", "<mask>".
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadPipelineTokenizer(
    absl::string_view directory, const std::string& end_of_text = "");

}  // namespace spillway
