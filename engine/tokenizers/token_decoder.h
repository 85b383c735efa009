// The decoder of a tokenizer.json: from tokens, as the file writes them, to text.
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

// Of "<0x0A>", with which byte_fallback writes a byte.
std::optional<char> FallbackByte(absl::string_view token);

// Immutable: any thread.
class TokenDecoder {
 public:
  // `decoder` with all its parts; null joins tokens with spaces. kUnimplemented names what is
  // not supported, kInvalidArgument what is broken.
  static absl::StatusOr<TokenDecoder> Read(const JsonPart& decoder);

  // Tokens are bytes in ByteLevel's alphabet, and nothing else is done to them.
  bool is_byte_level() const { return byte_level_; }

  // Valid UTF-8 of valid UTF-8. kInvalidArgument where a Replace makes far more text than there
  // was; kCancelled at a StopSignal.
  absl::StatusOr<std::string> Decode(std::vector<std::string> tokens) const;

 private:
  // `given_bytes`: of the tokens before the first step, by which what all make is bounded.
  using Step = std::function<absl::Status(std::vector<std::string>*, uint64_t given_bytes)>;

  absl::Status Add(const JsonPart& part);

  std::vector<Step> steps_;
  bool byte_level_ = false, joins_with_spaces_ = false;
};

}  // namespace spillway
