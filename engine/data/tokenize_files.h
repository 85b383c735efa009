// Text files made into one file of tokens, as train reads it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

struct TokenizeOptions {
  std::vector<std::string> files;  // .txt and .jsonl; their tokens follow one another
  const Tokenizer* tokenizer = nullptr;
  std::string out;  // .bin (raw uint16) or .npy (uint16, or uint32 for a larger vocabulary)
  // Told now and then how many bytes of all have been read; an error ends the work. May be null.
  std::function<absl::Status(uint64_t done_bytes, uint64_t total_bytes)> progress;
};

struct TokenizeResult {
  uint64_t text_bytes = 0;
  int64_t tokens = 0;
  int width_bytes = 2;
  double seconds = 0;
};

// `out` appears whole, under its name, or not at all; a file that was there is replaced.
// kInvalidArgument: nothing to encode, `out` among the inputs or of another kind, a token
// over 65535 for a .bin (at the first one), a .jsonl with prompts (neither format can say
// which tokens carry loss). kCancelled and others: what `progress` says.
absl::StatusOr<TokenizeResult> TokenizeFiles(const TokenizeOptions& options);

// A .npy header of version 1.0 for that many unsigned numbers; always kNpyHeaderBytes long.
inline constexpr size_t kNpyHeaderBytes = 128;
std::string NpyHeader(int64_t tokens, int width_bytes);

}  // namespace spillway
