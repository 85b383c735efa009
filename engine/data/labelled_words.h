// Texts cut into words with a label each, of .jsonl, and their tokens: as transformers'
// run_ner.py has them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/labelled_text.h"
#include "engine/families/transformer_config.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

struct LabelledWords {
  std::vector<std::string> words;
  std::vector<nlohmann::json> labels;  // [word], as the file has them; empty where there are none
  int64_t line = 0;
};

// Calls `take` for each row; kInvalidArgument, "FILE:LINE: ...", for rows without a list of words,
// or with another number of labels. `keys.texts` has one name, or none: tokens, or words.
// `keys.label`, where it is "": ner_tags, labels, or tags. Other keys are passed over.
// `needs_label`: a row without labels is an error.
absl::Status ReadLabelledWords(const std::string& path, const TextKeys& keys, bool needs_label,
                               const std::function<absl::Status(const LabelledWords&)>& take);

struct EncodedWords {
  EncodedText text;
  std::vector<int64_t> first;  // [word] where its first token is; -1: it has none, or was cut off
};

// Encodes words for one model, with what its tokenizer puts around them.
class WordListEncoder {
 public:
  // Both outlive it. `most_tokens`: of a text.
  WordListEncoder(const Tokenizer* tokenizer, const TransformerConfig* config, int64_t most_tokens)
      : tokenizer_(*tokenizer), config_(*config), most_tokens_(most_tokens) {}

  // Each word by itself, as is_split_into_words=True has it; where a tokenizer's tokens have the
  // spaces in them (RoBERTa's), a word begins with one. What is longer loses its end.
  // kInvalidArgument for texts without tokens, with those of another model, or where there is no
  // room for any.
  absl::StatusOr<EncodedWords> Encode(const std::vector<std::string>& words);

  int64_t cut() const { return cut_; }  // texts so far

 private:
  const Tokenizer& tokenizer_;
  const TransformerConfig& config_;
  const int64_t most_tokens_;
  int64_t cut_ = 0;
};

}  // namespace spillway
