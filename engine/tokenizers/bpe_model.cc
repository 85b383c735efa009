#include "engine/tokenizers/bpe_model.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "engine/base/utf8.h"
#include "engine/tokenizers/byte_alphabet.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr size_t kCacheEntries = 1 << 16;
constexpr size_t kKeyBytes = 31;
// Up to this length, searching all pairs is faster than a heap.
constexpr size_t kShortWord = 96;

}  // namespace

MergeTable::MergeTable(const std::vector<Merge>& merges)
    : slots_(std::bit_ceil(merges.size() * 2 + 2)), mask_(slots_.size() - 1) {
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    const uint64_t key = uint64_t{merge.left} << 32 | merge.right;
    size_t slot = SlotOf(key);
    while (slots_[slot].key != kNone && slots_[slot].key != key) slot = (slot + 1) & mask_;
    slots_[slot] = {key, uint64_t{rank} << 32 | merge.merged};
  }
}

class BpeEncoder final : public WordEncoder {
 public:
  explicit BpeEncoder(const BpeModel* model) : model_(*model), cache_(kCacheEntries) {}

  absl::Status Encode(absl::string_view word, std::vector<uint32_t>* tokens) override;

 private:
  // Equal words have equal bytes in all of the key: it is padded with zeros, and the length comes
  // last.
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
  absl::Status AppendCharacters(absl::string_view word, std::vector<uint32_t>* tokens) const;
  void MergeShort(std::vector<uint32_t>* tokens, size_t begin);
  void MergeLong(std::vector<uint32_t>* tokens, size_t begin);

  const BpeModel& model_;
  std::vector<Entry> cache_;
  std::vector<uint64_t> heap_;
  std::vector<uint32_t> previous_, next_;
};

absl::Status BpeEncoder::Encode(absl::string_view word, std::vector<uint32_t>* tokens) {
  if (word.size() > kKeyBytes) return EncodeNew(word, tokens);
  Key key;
  std::memcpy(key.words.data(), word.data(), word.size());
  key.words[3] |= uint64_t{word.size()} << 56;
  uint64_t hash = 0;
  for (const uint64_t part : key.words) {
    hash = (hash ^ part) * 0x9fb21c651e98df25u;
    hash ^= hash >> 32;
  }
  Entry& entry = cache_[hash & (kCacheEntries - 1)];
  if (entry.count > 0 && entry.key == key) {
    tokens->insert(tokens->end(), entry.tokens.begin(), entry.tokens.begin() + entry.count);
    return absl::OkStatus();
  }
  const size_t begin = tokens->size();
  RETURN_IF_ERROR(EncodeNew(word, tokens));
  const size_t count = tokens->size() - begin;
  if (count <= entry.tokens.size()) {
    entry.key = key;
    entry.count = static_cast<uint32_t>(count);
    std::copy(tokens->begin() + static_cast<std::ptrdiff_t>(begin), tokens->end(),
              entry.tokens.begin());
  }
  return absl::OkStatus();
}

absl::Status BpeEncoder::EncodeNew(absl::string_view word, std::vector<uint32_t>* tokens) {
  if (!model_.whole_words_.empty()) {
    const auto found = model_.whole_words_.find(word);
    if (found != model_.whole_words_.end()) {
      tokens->push_back(found->second);
      return absl::OkStatus();
    }
  }
  const size_t begin = tokens->size();
  size_t at = 0;
  while (at < word.size()) {
    const uint32_t token = model_.byte_tokens_[static_cast<unsigned char>(word[at])];
    if (token == kNoToken) break;
    tokens->push_back(token);
    ++at;
  }
  if (at < word.size()) {
    tokens->resize(begin);
    RETURN_IF_ERROR(
        AppendCharacters(model_.rules_.bytes ? ToByteAlphabet(word) : std::string(word), tokens));
  }
  if (tokens->size() - begin <= kShortWord) {
    MergeShort(tokens, begin);
  } else {
    MergeLong(tokens, begin);
  }
  return absl::OkStatus();
}

// Unknown characters wait for the next known one, as in tokenizers.
absl::Status BpeEncoder::AppendCharacters(absl::string_view word,
                                          std::vector<uint32_t>* tokens) const {
  const BpeRules& rules = model_.rules_;
  bool unknown = false;
  std::string character;
  for (size_t at = 0; at < word.size();) {
    character = at == 0 ? "" : rules.continuing_prefix;
    const size_t begin = at;
    TakeCodePoint(word, &at);
    character.append(word.data() + begin, at - begin);
    if (at == word.size()) character += rules.end_suffix;
    const uint32_t token = model_.vocabulary_.Find(character);
    if (token != kNoToken) {
      if (unknown) tokens->push_back(rules.unk);
      unknown = false;
      tokens->push_back(token);
      continue;
    }
    if (AppendFallback(model_.fallback_, character, tokens)) continue;
    if (rules.unk == kNoToken) {
      return NoTokenError(model_.vocabulary_, word.substr(begin, at - begin), "unk_token");
    }
    if (unknown && !rules.fuse_unk) tokens->push_back(rules.unk);
    unknown = true;
  }
  if (unknown) tokens->push_back(rules.unk);
  return absl::OkStatus();
}

void BpeEncoder::MergeShort(std::vector<uint32_t>* tokens, size_t begin) {
  uint32_t* ids = tokens->data() + begin;
  size_t count = tokens->size() - begin;
  const MergeTable& merges = model_.merges_;
  uint64_t ranks[kShortWord];  // of the pair at each position
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = merges.Find(ids[i], ids[i + 1]);
  while (count > 1) {
    const size_t best = static_cast<size_t>(std::min_element(ranks, ranks + count - 1) - ranks);
    if (ranks[best] == MergeTable::kNone) break;
    ids[best] = static_cast<uint32_t>(ranks[best]);
    std::copy(ids + best + 2, ids + count, ids + best + 1);
    --count;
    if (best + 1 < count) {
      std::copy(ranks + best + 2, ranks + count, ranks + best + 1);
      ranks[best] = merges.Find(ids[best], ids[best + 1]);
    }
    if (best > 0) ranks[best - 1] = merges.Find(ids[best - 1], ids[best]);
  }
  tokens->resize(begin + count);
}

// Merges with a linked list of the tokens and a heap of rank << 32 | position. An entry whose pair
// has changed is recognised by its rank, which no other pair has.
void BpeEncoder::MergeLong(std::vector<uint32_t>* tokens, size_t begin) {
  uint32_t* ids = tokens->data() + begin;
  const auto count = static_cast<uint32_t>(tokens->size() - begin);
  const MergeTable& merges = model_.merges_;
  previous_.resize(count);
  next_.resize(count);
  heap_.clear();
  constexpr uint32_t kEnd = UINT32_MAX;
  const auto push = [&](uint32_t left, uint32_t right) {
    const uint64_t found = merges.Find(ids[left], ids[right]);
    if (found == MergeTable::kNone) return;
    heap_.push_back((found >> 32) << 32 | left);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  };
  for (uint32_t i = 0; i < count; ++i) {
    previous_[i] = i == 0 ? kEnd : i - 1;
    next_[i] = i + 1 == count ? kEnd : i + 1;
    if (i > 0) push(i - 1, i);
  }
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const uint64_t top = heap_.back();
    heap_.pop_back();
    const auto left = static_cast<uint32_t>(top);
    const uint32_t right = next_[left];
    if (ids[left] == kNoToken || right == kEnd) continue;
    const uint64_t found = merges.Find(ids[left], ids[right]);
    if (found == MergeTable::kNone || found >> 32 != top >> 32) continue;
    ids[left] = static_cast<uint32_t>(found);
    ids[right] = kNoToken;  // merged into `left`
    next_[left] = next_[right];
    if (next_[left] != kEnd) {
      previous_[next_[left]] = left;
      push(left, next_[left]);
    }
    if (previous_[left] != kEnd) push(previous_[left], left);
  }
  tokens->erase(
      std::remove(tokens->begin() + static_cast<std::ptrdiff_t>(begin), tokens->end(), kNoToken),
      tokens->end());
  // Frees the memory of rare words of megabytes.
  if (count > 64 << 10) {
    for (auto* list : {&previous_, &next_}) std::vector<uint32_t>().swap(*list);
    std::vector<uint64_t>().swap(heap_);
  }
}

BpeModel::BpeModel(std::shared_ptr<const Vocabulary> vocabulary,
                   const std::vector<MergeTable::Merge>& merges, BpeRules rules)
    : shared_(std::move(vocabulary)), merges_(merges), rules_(std::move(rules)) {
  const bool affixes = !rules_.continuing_prefix.empty() || !rules_.end_suffix.empty();
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const std::string character(1, static_cast<char>(byte));
    const bool plain = rules_.bytes || (byte < 0x80 && !affixes);
    byte_tokens_[byte] =
        plain ? vocabulary_.Find(rules_.bytes ? ToByteAlphabet(character) : character) : kNoToken;
  }
  if (rules_.byte_fallback) fallback_ = ByteFallbackTokens(vocabulary_);
  std::vector<std::string> words;
  for (const auto& [token, id] : vocabulary_.ids) {
    if (!rules_.bytes) {
      words.emplace_back(token);
    } else if (std::optional<std::string> word = FromByteAlphabet(token)) {
      words.push_back(*std::move(word));
    } else {
      continue;
    }
    if (rules_.ignore_merges) whole_words_.emplace(words.back(), id);
  }
  if (!rules_.ignore_merges && !affixes) cuts_.emplace(words, rules_.bytes);
}

std::unique_ptr<WordEncoder> BpeModel::NewEncoder() const {
  return std::make_unique<BpeEncoder>(this);
}

}  // namespace spillway
