// Byte-pair encoding: merges neighbours in a word, the pair of lowest rank first and the leftmost
// of equal ones, until no pair has a rank.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/tokenizers/word_model.h"

namespace spillway {

// Maps pairs of tokens to merges: open addressing in one array. Immutable.
class MergeTable {
 public:
  struct Merge {
    uint32_t left = 0, right = 0, merged = 0;
  };

  // The rank is the position in `merges`; of equal pairs the last counts.
  explicit MergeTable(const std::vector<Merge>& merges);

  // rank << 32 | merged, so that the smallest is merged first; kNone if the pair has no merge.
  static constexpr uint64_t kNone = UINT64_MAX;
  uint64_t Find(uint32_t left, uint32_t right) const {
    const uint64_t key = uint64_t{left} << 32 | right;
    for (size_t slot = SlotOf(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].value;
      if (slots_[slot].key == kNone) return kNone;
    }
  }

 private:
  struct Slot {
    uint64_t key = kNone, value = kNone;
  };
  size_t SlotOf(uint64_t key) const { return (key * 0x9e3779b97f4a7c15u >> 32) & mask_; }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

// The options of a BPE model in its file.
struct BpeRules {
  bool bytes = false;  // byte-level: words are raw bytes, and tokens are in ByteLevel's alphabet
  bool ignore_merges = false;  // a word that is a token is that token, regardless of merges
  bool byte_fallback = false;  // a character without a token becomes tokens <0x00> to <0xFF>
  bool fuse_unk = false;       // neighbouring unknown characters become one token
  uint32_t unk = kNoToken;     // the unknown token; none: an error
  // Prefix of tokens inside a word, suffix of those at its end.
  std::string continuing_prefix, end_suffix;
};

class BpeModel : public WordModel {
 public:
  BpeModel(std::shared_ptr<const Vocabulary> vocabulary,
           const std::vector<MergeTable::Merge>& merges, BpeRules rules);

  // An encoder caches short words: 4 MiB of memory besides about 40 bytes per byte of a word.
  std::unique_ptr<WordEncoder> NewEncoder() const override;
  const WordCuts* cuts() const override { return cuts_ ? &*cuts_ : nullptr; }

 private:
  friend class BpeEncoder;

  const std::shared_ptr<const Vocabulary> shared_;
  const Vocabulary& vocabulary_ = *shared_;
  const MergeTable merges_;
  const BpeRules rules_;
  std::array<uint32_t, 256> byte_tokens_;  // for ByteLevel's alphabet, or ASCII characters
  std::vector<uint32_t> fallback_;         // empty without byte_fallback
  absl::flat_hash_map<std::string, uint32_t> whole_words_;  // for ignore_merges, by a word's text
  std::optional<WordCuts> cuts_;
};

}  // namespace spillway
