// Byte-pair encoding of one word: neighbours are merged, the pair of lowest rank first,
// the leftmost of equals, until no pair has a rank.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

inline constexpr uint32_t kNoToken = UINT32_MAX;

// Pairs of tokens and what they become: open addressing in one array. Immutable.
class MergeTable {
 public:
  struct Merge {
    uint32_t left = 0, right = 0, merged = 0;
  };

  // The rank is the position; of equal pairs the last counts.
  explicit MergeTable(const std::vector<Merge>& merges);

  // rank << 32 | merged, so that the smallest is merged first; kNone without a merge.
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

// What encoding words needs. Immutable: any thread.
struct BpeModel {
  std::array<uint32_t, 256> byte_tokens;  // kNoToken: none
  MergeTable merges;
  // ignore_merges: a word that is a token is that token, whatever its merges give.
  // By the token's bytes; empty otherwise.
  absl::flat_hash_map<std::string, uint32_t> whole_words;
};

// Encodes words, remembering the short ones: 4 MiB of memory beside what a word needs
// (about 40 bytes for each of its own). One thread.
class WordEncoder {
 public:
  // `model` must outlive it.
  explicit WordEncoder(const BpeModel* model);

  // kInvalidArgument for a byte that has no token.
  absl::Status Encode(absl::string_view word, std::vector<uint32_t>* tokens);

 private:
  // Equal words have equal bytes throughout: zeros follow, the length comes last.
  struct Key {
    std::array<uint64_t, 4> words = {};
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    uint32_t count = 0;  // 0: empty
    std::array<uint32_t, 7> tokens = {};
  };
  static_assert(sizeof(Entry) == 64, "an entry is one cache line");

  absl::Status EncodeNew(absl::string_view word, std::vector<uint32_t>* tokens);
  void MergeShort(std::vector<uint32_t>* tokens, size_t begin);
  void MergeLong(std::vector<uint32_t>* tokens, size_t begin);

  const BpeModel* const model_;
  std::vector<Entry> cache_;
  std::vector<uint64_t> heap_;
  std::vector<uint32_t> previous_, next_;
};

}  // namespace spillway
