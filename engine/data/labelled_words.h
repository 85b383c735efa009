// Reads texts that are split into words with a label each, from .jsonl, and encodes them like
// transformers' run_ner.py.
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
  std::vector<nlohmann::json> labels;  // [word] as in the file; empty without labels
  int64_t line = 0;
};

// Calls `take` for each row; kInvalidArgument, "FILE:LINE: ...", for rows without a list of words,
// or with another number of labels. `keys.texts` has one name, or none: tokens, or words.
// `keys.label` "": ner_tags, labels, or tags. Other keys are ignored. `needs_label`: a row without
// labels is an error.
absl::Status ReadLabelledWords(const std::string& path, const TextKeys& keys, bool needs_label,
                               const std::function<absl::Status(const LabelledWords&)>& take);

struct EncodedWords {
  EncodedText text;
  std::vector<int64_t> first;  // [word] index of its first token; -1: it has none, or was cut off
};

// Encodes words for one model, with the tokens that its tokenizer adds.
class WordListEncoder {
 public:
  // Both pointers outlive the encoder. `most_tokens`: limit of a text.
  WordListEncoder(const Tokenizer* tokenizer, const TransformerConfig* config, int64_t most_tokens)
      : tokenizer_(*tokenizer), config_(*config), most_tokens_(most_tokens) {}

  // Encodes each word by itself, like is_split_into_words=True; with tokenizers whose tokens
  // contain spaces (RoBERTa's), a word starts with one. Longer texts lose their end.
  // kInvalidArgument for texts without tokens, with tokens outside the model's vocabulary, or no
  // room for any.
  absl::StatusOr<EncodedWords> Encode(const std::vector<std::string>& words);

  int64_t cut() const { return cut_; }  // texts cut so far

 private:
  const Tokenizer& tokenizer_;
  const TransformerConfig& config_;
  const int64_t most_tokens_;
  int64_t cut_ = 0;
};

}  // namespace spillway
