// WordPiece (BERT's) and WordLevel: a list of words and parts of words.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/tokenizers/word_model.h"

namespace spillway {

// A word is cut from its start into the longest parts in the vocabulary. If that fails, or the word
// is too long, the whole word is unknown.
class WordPieceModel : public WordModel {
 public:
  // With `most_characters` 0 a word is looked up as a whole (WordLevel). An unknown word is an
  // error if `unk` is kNoToken.
  WordPieceModel(std::shared_ptr<const Vocabulary> vocabulary, std::string continuing_prefix,
                 size_t most_characters, uint32_t unk);

  std::unique_ptr<WordEncoder> NewEncoder() const override;
  LongWord long_word() const override { return LongWord::kTruncate; }

 private:
  friend class WordPieceEncoder;

  const std::shared_ptr<const Vocabulary> shared_;
  const Vocabulary& vocabulary_ = *shared_;
  const std::string continuing_prefix_;
  const size_t most_characters_;
  const uint32_t unk_;
  std::vector<size_t> lengths_bytes_;  // distinct lengths of tokens, sorted
};

}  // namespace spillway
