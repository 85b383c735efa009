// The tokens of a data set by position, across its files.
//
// Text is encoded once into a temporary token file without a name, so nothing is left behind; .bin
// and .npy are read in place. In both cases reads are verified (engine/data/token_file.h). Memory
// is bounded by one piece, whatever the data's size.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/token_file.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

struct TokenSourceOptions {
  // .txt, .jsonl, .bin (uint16, little-endian) or .npy (one-dimensional integers); their tokens are
  // concatenated.
  std::vector<std::string> files;
  // For .txt and .jsonl; may be null without those.
  const Tokenizer* tokenizer = nullptr;
  // The directory of temporary files: tokens of texts, checksums of others.
  std::string scratch_directory;
  // Tokens are below this; a text's tokenizer may not have more.
  int64_t vocabulary = 0;
  // A window needs window_tokens + 1 tokens; fewer in total are an error. 0: any data that are not
  // empty.
  int64_t window_tokens = 0;
  bool begins_lines = true, ends_lines = true;  // DataSink's
  ChatClock chat_clock = {};                    // DataSink's
};

// Immutable once open: any thread.
class TokenSource {
 public:
  // kNotFound for a missing file; kInvalidArgument for an empty one, an unknown format, an odd
  // number of bytes, a token outside the vocabulary (file, position, token, vocabulary), too few
  // tokens (how many there are, how many are needed), or none with loss.
  static absl::StatusOr<std::unique_ptr<TokenSource>> Open(const TokenSourceOptions& options);

  // Tokens in all files together.
  int64_t size() const { return size_; }
  // kInvalidArgument if there are too few tokens for one window.
  absl::Status CheckWindow(int64_t window_tokens) const;

  // Reads tokens [first, first + count). They are checked against the vocabulary again; kDataLoss
  // if they differ from the first pass. `marks`, if not null, gets the kMark... of each
  // (engine/data/token_file.h). REQUIRES: they exist.
  absl::Status Read(int64_t first, int64_t count, int64_t* out, uint8_t* marks = nullptr) const;

  // Whether all files mark the starts of samples: .jsonl does.
  bool has_samples() const;
  // Whether some tokens carry no loss: those of prompts, and in conversations all but the
  // assistant's.
  bool has_prompts() const { return with_loss_ < size_; }
  // The limit of tokens.
  int64_t vocabulary() const { return vocabulary_; }
  // The files, for messages.
  const std::string& names() const { return names_; }

  // The tokens with loss among those that end a text or a turn, by the tokenizer.
  const std::vector<int64_t>& learnt_ends() const { return learnt_ends_; }

  // Digest of the tokens and of which carry loss; part of a run's identity.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  TokenSource() = default;

  std::vector<TokenFile> parts_;
  std::vector<int64_t> starts_;  // [part] its first token
  int64_t vocabulary_ = 0;
  int64_t size_ = 0, with_loss_ = 0;
  std::string names_;
  std::string fingerprint_;
  std::vector<int64_t> learnt_ends_;
};

}  // namespace spillway
