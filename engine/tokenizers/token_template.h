// The tokens that a tokenizer.json adds around one text or two: its post-processor.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/tokenizers/json_part.h"

namespace spillway {

struct EncodedText {
  std::vector<int64_t> tokens;
  std::vector<int64_t> types;  // [token] the text it belongs to, for the model's segment types
  // [token] The text that it comes from, 0 or 1; -1 if it was added.
  std::vector<int8_t> sources = {};
};

// Immutable: any thread.
class TokenTemplate {
 public:
  // Reads `post_processor`; null adds nothing. kUnimplemented names an unsupported part,
  // kInvalidArgument a broken one.
  static absl::StatusOr<TokenTemplate> Read(const JsonPart& post_processor);

  EncodedText Apply(absl::Span<const int64_t> text,
                    std::optional<absl::Span<const int64_t>> second) const;

 private:
  struct Piece {
    int sequence = -1;  // 0 or 1; -1: tokens
    int64_t type = 0;
    std::vector<int64_t> tokens;
  };
  using Pieces = std::vector<Piece>;

  static absl::StatusOr<Pieces> ReadPieces(const JsonPart& part, const char* key);
  absl::Status ReadBertOrRoberta(const JsonPart& part, bool roberta);

  Pieces single_ = {{0, 0, {}}};
  Pieces pair_ = {{0, 0, {}}, {1, 1, {}}};
};

}  // namespace spillway
