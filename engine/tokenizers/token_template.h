// What a tokenizer.json puts around a text, or around two: its post-processor.
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
  std::vector<int64_t> types;  // of each token: which of the texts it belongs to, as models ask
  // Of each token: the text, 0 or 1, that it is of; -1 where it was put around them.
  std::vector<int8_t> sources = {};
};

// Immutable: any thread.
class TokenTemplate {
 public:
  // `post_processor`; null puts nothing around. kUnimplemented names what is not supported,
  // kInvalidArgument what is broken.
  static absl::StatusOr<TokenTemplate> Read(const JsonPart& post_processor);

  EncodedText Apply(absl::Span<const int64_t> text,
                    std::optional<absl::Span<const int64_t>> second) const;

 private:
  struct Piece {
    int sequence = -1;  // 0, 1; -1: tokens
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
