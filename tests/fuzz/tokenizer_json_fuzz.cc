// Any text as a tokenizer.json: a status or a tokenizer that encodes and decodes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "engine/data/bpe_tokenizer.h"
#include "engine/data/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  auto spec = ParseTokenizerJson({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!spec.ok()) return 0;
  const auto tokenizer = NewBpeTokenizer(*std::move(spec), std::nullopt, {});
  const auto tokens = tokenizer->Encode("Hello  world's 123\n\n<|endoftext|> e\u0301\u4f60");
  if (tokens.ok() && !tokenizer->Decode(*tokens).ok()) std::abort();
  return 0;
}
