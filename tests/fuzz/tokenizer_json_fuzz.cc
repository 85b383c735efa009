// Any text as a tokenizer.json: a status or a tokenizer that encodes and decodes.
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/data/pipeline_tokenizer.h"
#include "engine/data/tokenizer_json.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  auto parts = ParseTokenizerJson({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!parts.ok()) return 0;
  const auto tokenizer = NewPipelineTokenizer(*std::move(parts), std::nullopt, {});
  const auto tokens = tokenizer->Encode("Hello  world's 123\n\n<|endoftext|> e\u0301\u4f60");
  if (!tokens.ok()) return 0;
  const auto text = tokenizer->Decode(*tokens);
  // A Replace among the decoders may need too much backtracking, or make too much.
  if (!text.ok()) {
    Expect(text.status(),
           {absl::StatusCode::kInvalidArgument, absl::StatusCode::kResourceExhausted});
  }
  tokenizer->Around(*tokens, *tokens);
  return 0;
}
