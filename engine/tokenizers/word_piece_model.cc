#include "engine/tokenizers/word_piece_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/stop_signal.h"
#include "io/base/status.h"

namespace spillway {

class WordPieceEncoder : public WordEncoder {
 public:
  explicit WordPieceEncoder(const WordPieceModel* model) : model_(*model) {}

  absl::Status Encode(absl::string_view word, std::vector<uint32_t>* tokens) override {
    const size_t size = tokens->size();
    ASSIGN_OR_RETURN(const bool known, Known(word, tokens));
    if (known) return absl::OkStatus();
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
  absl::StatusOr<bool> Known(absl::string_view word, std::vector<uint32_t>* tokens) {
    if (model_.most_characters_ == 0) {
      tokens->push_back(model_.vocabulary_.Find(word));
      return tokens->back() != kNoToken;
    }
    const auto begins = [](char c) { return (c & 0xc0) != 0x80; };
    if (std::count_if(word.begin(), word.end(), begins) > model_.most_characters_) return false;
    const std::vector<size_t>& lengths = model_.lengths_bytes_;
    for (size_t at = 0; at < word.size();) {
      RETURN_IF_ERROR(StopSignal::Check());
      part_ = at == 0 ? "" : model_.continuing_prefix_;
      const size_t prefix = part_.size();
      absl::StrAppend(&part_, word.substr(at, lengths.empty() ? 0 : lengths.back()));
      uint32_t token = kNoToken;
      // Tries lengths that tokens have, the longest first.
      auto length = std::upper_bound(lengths.begin(), lengths.end(), part_.size());
      while (length != lengths.begin() && *--length > prefix && token == kNoToken) {
        part_.resize(*length);
        // Only whole characters.
        const size_t end = at + part_.size() - prefix;
        if (end == word.size() || begins(word[end])) token = model_.vocabulary_.Find(part_);
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
  for (const std::string& token : vocabulary_.tokens) lengths_bytes_.push_back(token.size());
  std::sort(lengths_bytes_.begin(), lengths_bytes_.end());
  lengths_bytes_.erase(std::unique(lengths_bytes_.begin(), lengths_bytes_.end()),
                       lengths_bytes_.end());
}

std::unique_ptr<WordEncoder> WordPieceModel::NewEncoder() const {
  return std::make_unique<WordPieceEncoder>(this);
}

}  // namespace spillway
