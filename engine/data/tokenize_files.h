// Encodes text files into one file of tokens for training.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

struct TokenizeOptions {
  std::vector<std::string> files;  // .txt and .jsonl; their tokens are concatenated
  const Tokenizer* tokenizer = nullptr;
  std::string out;  // .bin (raw uint16) or .npy (uint16, or uint32 for a larger vocabulary)
  // Called now and then with the bytes read of all files; an error ends the work. May be null.
  std::function<absl::Status(uint64_t done_bytes, uint64_t total_bytes)> progress;
};

struct TokenizeResult {
  uint64_t text_bytes = 0;
  int64_t tokens = 0;
  int width_bytes = 2;
  double seconds = 0;
};

// `out` is created atomically; an existing file is replaced. kInvalidArgument: nothing to encode,
// `out` among the inputs or of another format, a token over 65535 for a .bin (at the first one), a
// .jsonl with prompts (neither format can mark tokens without loss). kCancelled and other errors of
// `progress`.
absl::StatusOr<TokenizeResult> TokenizeFiles(const TokenizeOptions& options);

// A .npy header of version 1.0 for `tokens` unsigned numbers; always kNpyHeaderBytes long.
inline constexpr size_t kNpyHeaderBytes = 128;
std::string NpyHeader(int64_t tokens, int width_bytes);

}  // namespace spillway
