// Texts with a label, or with a label per word, as tokenised samples. They are kept in temporary
// files, so memory is bounded.
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

// Encodes texts for one model, with the tokens that its tokenizer adds.
class TextPairEncoder {
 public:
  // Both pointers outlive the encoder. `most_tokens`: limit of a sample.
  TextPairEncoder(const Tokenizer* tokenizer, const TransformerConfig* config, int64_t most_tokens)
      : tokenizer_(*tokenizer), config_(*config), most_tokens_(most_tokens) {}

  // A longer sample is cut like with transformers' truncation=True: tokens are removed from the end
  // of the longer text first. Segment types are 0 if the model has no others. kInvalidArgument for
  // a text without tokens, with tokens outside the model's vocabulary, or no room for any.
  absl::StatusOr<EncodedText> Encode(const LabelledText& text);

  int64_t cut() const { return cut_; }  // samples cut so far

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

// Immutable once read: any thread.
class LabelledSamples {
 public:
  static constexpr float kWithoutLabel = -100;

  // Read all `files`: texts with their labels, or words with a label each. `config` has a
  // classifier whose problem is known. Warn of samples that are cut. kInvalidArgument, "FILE:LINE:
  // ...", as in ReadLabelledTexts, ReadLabel and TextPairEncoder, or in ReadLabelledWords and
  // WordListEncoder.
  static absl::StatusOr<std::unique_ptr<LabelledSamples>> ReadTexts(
      const std::vector<std::string>& files, const TransformerConfig& config,
      const LabelledSamplesOptions& options);
  static absl::StatusOr<std::unique_ptr<LabelledSamples>> ReadWords(
      const std::vector<std::string>& files, const TransformerConfig& config,
      const LabelledSamplesOptions& options);

  struct Sample {
    EncodedText text;
    // From ReadLabel; or [token] with token labels: the word's at its first token, elsewhere
    // kWithoutLabel.
    std::vector<float> labels;
  };

  // At least 1.
  int64_t size() const { return rows_.size(); }
  // REQUIRES: 0 <= sample < size().
  absl::StatusOr<Sample> Get(int64_t sample) const;

  // Whether every token has a label, instead of the text.
  bool labels_tokens() const { return labels_ == 0; }
  int64_t longest() const { return longest_; }  // tokens
  int64_t tokens() const { return tokens_; }    // of all samples
  // Digest of all samples.
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

  // [sample] The bits of its labels, then its tokens, with segment types in the upper halves.
  ScratchRows rows_;
  const int64_t labels_;  // per sample; 0: one per token
  int64_t longest_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace spillway
