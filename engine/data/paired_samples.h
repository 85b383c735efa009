// Pairs of texts as tokenised samples. They are kept in temporary files, so memory is bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/scratch_file.h"
#include "engine/data/text_pairs.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

struct TextPair {
  std::vector<int64_t> source, target;
};

// The tokens of a text with those that the tokenizer adds. A longer text loses its end, as with
// transformers' truncation=True, and is counted. `flag`: the source of `most`. kInvalidArgument for
// a text without tokens, with tokens outside the model's vocabulary, or no room for any.
absl::StatusOr<std::vector<int64_t>> EncodeWithin(const Tokenizer& tokenizer,
                                                  const std::string& text, int64_t most,
                                                  int64_t vocabulary, const char* flag,
                                                  int64_t* cut);

struct PairedSamplesOptions {
  const Tokenizer* tokenizer = nullptr;
  PairKeys keys;
  int64_t max_source_length = 0, max_target_length = 0;  // tokens
  int64_t vocabulary = 0;
  int64_t end_token = -1;  // ends targets if the tokenizer adds no tokens; -1: none
  std::string scratch_directory;
};

// Immutable once read: any thread.
class PairedSamples {
 public:
  // Reads all `files`. Warns of texts that are cut. kInvalidArgument, "FILE:LINE: ...", as in
  // ReadTextPairs and EncodeWithin.
  static absl::StatusOr<std::unique_ptr<PairedSamples>> Read(const std::vector<std::string>& files,
                                                             const PairedSamplesOptions& options);

  // At least 1.
  int64_t size() const { return rows_.size(); }
  // REQUIRES: 0 <= sample < size().
  absl::StatusOr<TextPair> Get(int64_t sample) const;

  // In tokens.
  int64_t longest_source() const { return longest_source_; }
  int64_t longest_target() const { return longest_target_; }
  // Sum over all samples.
  int64_t source_tokens() const { return source_tokens_; }
  int64_t target_tokens() const { return target_tokens_; }
  // Digest of all samples.
  std::string fingerprint() const;

 private:
  explicit PairedSamples(ScratchRows rows) : rows_(std::move(rows)) {}

  // [sample] The number of its source's tokens, these tokens, then its target's.
  ScratchRows rows_;
  int64_t longest_source_ = 0, longest_target_ = 0;
  int64_t source_tokens_ = 0, target_tokens_ = 0;
};

}  // namespace spillway
