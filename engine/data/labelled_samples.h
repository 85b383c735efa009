// Texts with labels, or with one for each word, as tokens, each a sample by itself. They are kept
// in temporary files, so memory stays bounded however many there are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/labelled_text.h"
#include "engine/data/labelled_words.h"
#include "engine/data/scratch_file.h"
#include "engine/families/transformer_config.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

// Encodes texts for one model, with what its tokenizer puts around them.
class TextPairEncoder {
 public:
  // Both outlive it. `most_tokens`: of a sample.
  TextPairEncoder(const Tokenizer* tokenizer, const TransformerConfig* config, int64_t most_tokens)
      : tokenizer_(*tokenizer), config_(*config), most_tokens_(most_tokens) {}

  // A longer sample is cut as transformers' truncation=True does it: the longer of two texts loses
  // its end first. Types are 0 where the model knows no other. kInvalidArgument for a text without
  // tokens, with those of another model, or where there is no room for any.
  absl::StatusOr<EncodedText> Encode(const LabelledText& text);

  int64_t cut() const { return cut_; }  // samples so far

 private:
  const Tokenizer& tokenizer_;
  const TransformerConfig& config_;
  const int64_t most_tokens_;
  int64_t cut_ = 0;
};

struct LabelledSamplesOptions {
  const Tokenizer* tokenizer = nullptr;
  TextKeys keys;
  int64_t seq_len = 0;
  std::string scratch_directory;
};

// Immutable once made: any thread.
class LabelledSamples {
 public:
  static constexpr float kWithoutLabel = -100;

  // Read all `files`: texts with their labels, or words with a label each. `config` has a
  // classifier whose problem is known. They warn of samples that are cut. kInvalidArgument,
  // "FILE:LINE: ...", as of ReadLabelledTexts, ReadLabel and TextPairEncoder, or of
  // ReadLabelledWords and WordListEncoder.
  static absl::StatusOr<std::unique_ptr<LabelledSamples>> ReadTexts(
      const std::vector<std::string>& files, const TransformerConfig& config,
      const LabelledSamplesOptions& options);
  static absl::StatusOr<std::unique_ptr<LabelledSamples>> ReadWords(
      const std::vector<std::string>& files, const TransformerConfig& config,
      const LabelledSamplesOptions& options);

  struct Sample {
    EncodedText text;
    // ReadLabel's; where tokens have them, of each: its word's in the first one's place, elsewhere
    // kWithoutLabel.
    std::vector<float> labels;
  };

  // At least 1.
  int64_t size() const { return rows_.size(); }
  // REQUIRES: 0 <= sample < size().
  absl::StatusOr<Sample> Get(int64_t sample) const;

  // Whether every token has a label, and not the text.
  bool labels_tokens() const { return labels_ == 0; }
  int64_t longest() const { return longest_; }  // tokens
  int64_t tokens() const { return tokens_; }    // of all samples
  // Changes with any sample.
  std::string fingerprint() const;

 private:
  LabelledSamples(ScratchRows rows, int64_t labels) : rows_(std::move(rows)), labels_(labels) {}
  absl::Status Add(const Sample& sample);
  // Appends the samples of one file; returns how many were cut.
  using AddFile = absl::StatusOr<int64_t> (LabelledSamples::*)(
      const std::string& file, const TransformerConfig& config,
      const LabelledSamplesOptions& options);
  absl::StatusOr<int64_t> AddTexts(const std::string& file, const TransformerConfig& config,
                                   const LabelledSamplesOptions& options);
  absl::StatusOr<int64_t> AddWords(const std::string& file, const TransformerConfig& config,
                                   const LabelledSamplesOptions& options);
  static absl::StatusOr<std::unique_ptr<LabelledSamples>> Read(
      const std::vector<std::string>& files, int64_t labels, AddFile add,
      const TransformerConfig& config, const LabelledSamplesOptions& options);

  // Of each sample its labels' bits, then its tokens, with their types in the upper halves.
  ScratchRows rows_;
  const int64_t labels_;  // of a sample; 0: one of each token
  int64_t longest_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace spillway
