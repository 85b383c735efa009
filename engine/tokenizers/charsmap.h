// SentencePiece's precompiled map of characters: a trie of what is replaced, by what.
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
  // As it stands in tokenizer.json: base64 of a size, a double-array trie (Darts-clone's) and
  // strings that end with a zero. kInvalidArgument says what is wrong with it.
  static absl::StatusOr<Charsmap> Parse(absl::string_view base64);

  // What the shortest beginning of `text` that is in the map becomes; nullopt for none.
  std::optional<absl::string_view> Find(absl::string_view text) const;

 private:
  std::vector<uint32_t> trie_;
  std::string strings_;
};

}  // namespace spillway
