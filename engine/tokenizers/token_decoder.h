// The decoder of a tokenizer.json: converts tokens, as the file writes them, to text.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/tokenizers/json_part.h"

namespace spillway {

// The byte of "<0x0A>", byte_fallback's form.
std::optional<char> FallbackByte(absl::string_view token);

// Immutable: any thread.
class TokenDecoder {
 public:
  // Reads `decoder` with all its parts; null joins tokens with spaces. kUnimplemented names an
  // unsupported part, kInvalidArgument a broken one.
  static absl::StatusOr<TokenDecoder> Read(const JsonPart& decoder);

  // Whether tokens are only mapped from ByteLevel's alphabet to bytes.
  bool is_byte_level() const { return byte_level_; }

  // Gives valid UTF-8 for valid UTF-8. kInvalidArgument if a Replace expands the text too much;
  // kCancelled at a StopSignal.
  absl::StatusOr<std::string> Decode(std::vector<std::string> tokens) const;

 private:
  // `given_bytes`: size of the tokens before the first step, which bounds the result.
  using Step = std::function<absl::Status(std::vector<std::string>*, uint64_t given_bytes)>;

  absl::Status Add(const JsonPart& part);

  std::vector<Step> steps_;
  bool byte_level_ = false, joins_with_spaces_ = false;
};

}  // namespace spillway
