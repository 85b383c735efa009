// The model of a tokenizer.json: encodes words, and tells where long ones may be cut.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

inline constexpr uint32_t kNoToken = UINT32_MAX;

// Tokens as the file writes them; "" for an id without a token.
struct Vocabulary {
  Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::vector<std::string> tokens;
  absl::flat_hash_map<absl::string_view, uint32_t> ids;  // views of `tokens`, which do not move
  // Words are in GPT-2's alphabet, in which each character is a byte of the text.
  bool writes_bytes = false;

  // The empty string, which Whisper's vocabulary contains, has an id but is not part of any text.
  uint32_t Find(absl::string_view token) const {
    const auto found = token.empty() ? ids.end() : ids.find(token);
    return found == ids.end() ? kNoToken : found->second;
  }
};

// The tokens "<0x00>" to "<0xFF>"; kNoToken for missing ones.
std::vector<uint32_t> ByteFallbackTokens(const Vocabulary& vocabulary);
// Appends the tokens of the text's bytes. False, without any effect, if one is missing or
// `fallback` is empty.
bool AppendFallback(const std::vector<uint32_t>& fallback, absl::string_view text,
                    std::vector<uint32_t>* tokens);

// kInvalidArgument for a non-empty `text` whose first character has no token. It names the byte if
// characters stand for bytes; `key` names the unknown token.
absl::Status NoTokenError(const Vocabulary& vocabulary, absl::string_view text,
                          absl::string_view key);
// The bytes of the text in a NoTokenError; none for another status.
std::optional<std::string> BytesWithoutToken(const absl::Status& status);

// Pairs of neighbours that no token contains: a word may be cut between them without changing its
// tokens. Errs only towards "not allowed".
class WordCuts {
 public:
  // Neighbours are bytes, or characters.
  WordCuts(const std::vector<std::string>& tokens, bool bytes);

  bool bytes() const { return bytes_; }
  bool MayCut(uint32_t left, uint32_t right) const {
    return known_[left] && known_[right] && !joined_[Slot(left, right)];
  }

 private:
  static size_t Slot(uint32_t left, uint32_t right) {
    return ((uint64_t{left} << 32 | right) * 0x9e3779b97f4a7c15u) >> 44;
  }
  const bool bytes_;
  std::vector<bool> known_, joined_;
};

// Encodes words. One thread.
class WordEncoder {
 public:
  virtual ~WordEncoder() = default;

  // `word` is not empty. kInvalidArgument names the text without a token.
  virtual absl::Status Encode(absl::string_view word, std::vector<uint32_t>* tokens) = 0;
};

// Immutable: any thread.
class WordModel {
 public:
  // The treatment of a word of more than kMaxHeldBytes.
  enum class LongWord {
    kCut,       // it is cut there
    kTruncate,  // the rest is dropped, since the word is unknown anyway
  };

  virtual ~WordModel() = default;
  virtual std::unique_ptr<WordEncoder> NewEncoder() const = 0;
  virtual LongWord long_word() const { return LongWord::kCut; }

  // The places where words may be cut, and the least length of a part; null: none.
  virtual const WordCuts* cuts() const { return nullptr; }
  virtual size_t least_cut_bytes() const { return 0; }
};

}  // namespace spillway
