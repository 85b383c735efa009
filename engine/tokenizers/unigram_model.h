// Unigram (SentencePiece's): encodes a word by the token sequence with the largest sum of scores.
#pragma once

#include <memory>
#include <vector>

#include "engine/tokenizers/bpe_model.h"
#include "engine/tokenizers/word_model.h"

namespace spillway {

// Sums are in double precision from the word's start, as in `tokenizers`. A word takes 16 bytes of
// memory per byte. One of more than 64 KiB is cut where no token spans, which changes tokens only
// by rounding.
class UnigramModel : public WordModel {
 public:
  // A score for each token. An unknown character is an error if `unk` is kNoToken.
  UnigramModel(std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores,
               uint32_t unk, bool byte_fallback);

  std::unique_ptr<WordEncoder> NewEncoder() const override;
  const WordCuts* cuts() const override { return &cuts_; }
  size_t least_cut_bytes() const override { return 64 << 10; }

 private:
  friend class UnigramEncoder;

  const std::shared_ptr<const Vocabulary> shared_;
  const Vocabulary& vocabulary_ = *shared_;
  const std::vector<double> scores_;
  const uint32_t unk_;
  std::vector<uint32_t> fallback_;  // empty without byte_fallback
  double unk_score_ = 0;
  // The trie: a node and a byte lead to a node, which may end a token.
  std::optional<MergeTable> children_;
  std::vector<uint32_t> tokens_at_;
  const WordCuts cuts_;
};

}  // namespace spillway
