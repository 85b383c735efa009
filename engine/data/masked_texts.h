// The texts that a masked language model learns from: windows of the sequence of all tokens, or
// the lines of a .jsonl, each with what the tokenizer puts around a text ([CLS] ... [SEP]).
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
  int64_t seq_len = 0;                        // tokens of a text at most, those around it included
  const TransformerConfig* config = nullptr;  // types are 0 where it knows no other
  bool lines = false;  // of a .jsonl, cut where they are longer; otherwise windows
  std::string scratch_directory;
};

// Immutable once made: any thread.
class MaskedTexts {
 public:
  // `source` and what options point to outlive it. A window has all the tokens that there is room
  // for; what is left behind the last one is not used. Warns of lines that are cut.
  // kInvalidArgument where there is no room for a token or no window, or where the tokenizer is
  // another model's or masks nothing. REQUIRES: source->has_samples(), where lines are wanted.
  static absl::StatusOr<std::unique_ptr<MaskedTexts>> Lay(const TokenSource* source,
                                                          const MaskedTextsOptions& options);

  struct Text {
    EncodedText encoded;
    std::vector<bool> may;  // [token] may be masked: it is no special one, and carries loss
  };

  // At least 1.
  int64_t size() const { return lines_ ? lines_->size() : windows_; }
  // REQUIRES: 0 <= text < size().
  absl::StatusOr<Text> Get(int64_t text) const;

  int64_t longest() const { return longest_; }  // tokens
  int64_t tokens() const { return tokens_; }    // of all texts
  // Changes with any text.
  std::string fingerprint() const;

 private:
  MaskedTexts(const TokenSource* source, const MaskedTextsOptions& options)
      : source_(*source), options_(options) {}
  // Returns how many are cut.
  absl::StatusOr<int64_t> FindLines();

  const TokenSource& source_;
  const MaskedTextsOptions options_;
  int64_t room_ = 0;  // tokens of a text without those around it
  int64_t windows_ = 0;
  std::unique_ptr<ScratchRows> lines_;  // [line] its first token and their number; null: windows
  int64_t longest_ = 0;
  int64_t tokens_ = 0;
};

// kInvalidArgument, with what to do, where the tokenizer has no token that masks others; null is
// one of these. Its token otherwise.
absl::StatusOr<int64_t> MaskTokenOf(const Tokenizer* tokenizer);

}  // namespace spillway
