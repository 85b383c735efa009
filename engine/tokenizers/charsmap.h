// SentencePiece's precompiled character map: a trie of replacements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

// Immutable: any thread.
class Charsmap {
 public:
  // Parses the form in tokenizer.json: base64 of a size, a double-array trie (Darts-clone's) and
  // zero-terminated strings. kInvalidArgument explains what is wrong.
  static absl::StatusOr<Charsmap> Parse(absl::string_view base64);

  // The replacement of the shortest prefix of `text` in the map; nullopt if there is none.
  std::optional<absl::string_view> Find(absl::string_view text) const;

 private:
  std::vector<uint32_t> trie_;
  std::string strings_;
};

}  // namespace spillway
