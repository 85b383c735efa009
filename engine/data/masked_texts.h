// The texts for masked language modelling: windows of the sequence of all tokens, or the lines of a
// .jsonl, each with the tokens that the tokenizer adds to a text ([CLS] ... [SEP]).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/scratch_file.h"
#include "engine/data/token_source.h"
#include "engine/families/transformer_config.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

struct MaskedTextsOptions {
  const Tokenizer* tokenizer = nullptr;
  int64_t seq_len = 0;                        // limit of a text, including added tokens
  const TransformerConfig* config = nullptr;  // segment types are 0 if it has no others
  bool lines = false;  // lines of a .jsonl, cut if too long; otherwise windows
  std::string scratch_directory;
};

// Immutable once laid: any thread.
class MaskedTexts {
 public:
  // `source` and pointers in the options outlive it. A window has all the tokens that fit; the rest
  // after the last one is not used. Warns of lines that are cut. kInvalidArgument if there is no
  // room for a token or no window, or the tokenizer belongs to another model or has no mask token.
  // REQUIRES: source->has_samples() for lines.
  static absl::StatusOr<std::unique_ptr<MaskedTexts>> Lay(const TokenSource* source,
                                                          const MaskedTextsOptions& options);

  struct Text {
    EncodedText encoded;
    std::vector<bool> may;  // [token] may be masked: it is not special, and carries loss
  };

  // At least 1.
  int64_t size() const { return lines_ ? lines_->size() : windows_; }
  // REQUIRES: 0 <= text < size().
  absl::StatusOr<Text> Get(int64_t text) const;

  int64_t longest() const { return longest_; }  // tokens
  int64_t tokens() const { return tokens_; }    // of all texts
  // Digest of all texts.
  std::string fingerprint() const;

 private:
  MaskedTexts(const TokenSource* source, const MaskedTextsOptions& options)
      : source_(*source), options_(options) {}
  // Returns how many are cut.
  absl::StatusOr<int64_t> FindLines();

  const TokenSource& source_;
  const MaskedTextsOptions options_;
  int64_t room_ = 0;  // tokens of a text without added ones
  int64_t windows_ = 0;
  std::unique_ptr<ScratchRows> lines_;  // [line] its first token and their number; null: windows
  int64_t longest_ = 0;
  int64_t tokens_ = 0;
};

// The tokenizer's mask token. kInvalidArgument with the remedy if it has none, or is null.
absl::StatusOr<int64_t> MaskTokenOf(const Tokenizer* tokenizer);

}  // namespace spillway
