// Any text as a tokenizer.json: a status or a tokenizer that encodes and decodes.
#include <utility>

#include "engine/tokenizers/pipeline_tokenizer.h"
#include "engine/tokenizers/tokenizer_json.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(tokenizer_json, 2000) {
  auto parts = ParseTokenizerJson(input, "fuzz");
  if (!parts.ok()) {
    return Refuse(parts.status(),
                  {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented});
  }
  const auto tokenizer = NewPipelineTokenizer(*std::move(parts), std::nullopt, {});
  const auto tokens = tokenizer->Encode("Hello  world's 123\n\n<|endoftext|> e\u0301\u4f60");
  if (!tokens.ok()) {
    Refuse(tokens.status(), {absl::StatusCode::kInvalidArgument});
    return true;  // of another alphabet
  }
  const auto text = tokenizer->Decode(*tokens);
  // A Replace among the decoders may need too much backtracking, or make too much.
  if (!text.ok()) {
    Refuse(text.status(), {absl::StatusCode::kInvalidArgument});
  }
  tokenizer->Around(*tokens, *tokens);
  return true;
}

}  // namespace spillway
