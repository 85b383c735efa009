#include "engine/data/word_piece_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace spillway {

class WordPieceEncoder : public WordEncoder {
 public:
  explicit WordPieceEncoder(const WordPieceModel* model) : model_(*model) {}

  absl::Status Encode(absl::string_view word, std::vector<uint32_t>* tokens) override {
    const size_t size = tokens->size();
    if (Known(word, tokens)) return absl::OkStatus();
    tokens->resize(size);
    if (model_.unk_ == kNoToken) {
      return absl::InvalidArgumentError(absl::StrCat("the tokenizer has no token for \"",
                                                     word.substr(0, 80),
                                                     "\", and names none for the unknown"));
    }
    tokens->push_back(model_.unk_);
    return absl::OkStatus();
  }

 private:
  bool Known(absl::string_view word, std::vector<uint32_t>* tokens) {
    if (model_.most_characters_ == 0) {
      tokens->push_back(model_.vocabulary_.Find(word));
      return tokens->back() != kNoToken;
    }
    const auto begins = [](char c) { return (c & 0xc0) != 0x80; };
    if (std::count_if(word.begin(), word.end(), begins) > model_.most_characters_) return false;
    for (size_t at = 0; at < word.size();) {
      part_ = at == 0 ? "" : model_.continuing_prefix_;
      const size_t prefix = part_.size();
      absl::StrAppend(&part_, word.substr(at, model_.longest_bytes_));
      uint32_t token = kNoToken;
      while (part_.size() > prefix) {
        // Whole characters only.
        const size_t end = at + part_.size() - prefix;
        if (end == word.size() || begins(word[end])) token = model_.vocabulary_.Find(part_);
        if (token != kNoToken) break;
        part_.pop_back();
      }
      if (token == kNoToken) return false;
      tokens->push_back(token);
      at += part_.size() - prefix;
    }
    return true;
  }

  const WordPieceModel& model_;
  std::string part_;
};

WordPieceModel::WordPieceModel(std::shared_ptr<const Vocabulary> vocabulary,
                               std::string continuing_prefix, size_t most_characters, uint32_t unk)
    : shared_(std::move(vocabulary)),
      continuing_prefix_(std::move(continuing_prefix)),
      most_characters_(most_characters),
      unk_(unk) {
  for (const std::string& token : vocabulary_.tokens) {
    longest_bytes_ = std::max(longest_bytes_, token.size());
  }
}

std::unique_ptr<WordEncoder> WordPieceModel::NewEncoder() const {
  return std::make_unique<WordPieceEncoder>(this);
}

}  // namespace spillway
