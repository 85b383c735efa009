// The tokens of a data set, by position, whatever files they are in.
//
// Text is encoded once into a temporary token file that has no name while it is used
// (so nothing is left behind, whatever happens); .bin and .npy are read where they are. Either way
// what is read is verified (engine/data/token_file.h). Memory stays bounded by one piece, whatever
// the data's size.
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
  // .txt, .jsonl, .bin (uint16, little-endian) or .npy (one-dimensional integers); the
  // tokens of one follow those of the one before.
  std::vector<std::string> files;
  // For .txt and .jsonl; may be null when there is none.
  const Tokenizer* tokenizer = nullptr;
  // Where temporary files go: tokens of texts, checksums of others.
  std::string scratch_directory;
  // Tokens are below this; a text's tokenizer may not have more.
  int64_t vocabulary = 0;
  // One window needs window_tokens + 1 tokens; fewer in all is an error. 0: anything
  // that is not empty will do.
  int64_t window_tokens = 0;
  bool begins_lines = true, ends_lines = true;  // DataSink's
  ChatClock chat_clock = {};                    // DataSink's
};

// Immutable once open: any thread.
class TokenSource {
 public:
  // kNotFound for a missing file; kInvalidArgument for an empty one, an unknown kind, an
  // odd number of bytes, a token outside the vocabulary (file, position, token,
  // vocabulary), too few tokens (how many there are, how many are needed), or none that
  // carries loss.
  static absl::StatusOr<std::unique_ptr<TokenSource>> Open(const TokenSourceOptions& options);

  // Tokens in all files together.
  int64_t size() const { return size_; }
  // kInvalidArgument where they make no window of so many.
  absl::Status CheckWindow(int64_t window_tokens) const;

  // Tokens [first, first + count). Checked against the vocabulary again; kDataLoss where they are
  // not those of the first pass. `marks` may be null; else it gets the kMark... of each
  // (engine/data/token_file.h). REQUIRES: they exist.
  absl::Status Read(int64_t first, int64_t count, int64_t* out, uint8_t* marks = nullptr) const;

  // Whether all files say where samples begin: .jsonl does.
  bool has_samples() const;
  // Whether some tokens carry no loss: those of prompts, and of conversations what the assistant
  // does not say.
  bool has_prompts() const { return with_loss_ < size_; }
  // Tokens are below this.
  int64_t vocabulary() const { return vocabulary_; }
  // The files, for messages.
  const std::string& names() const { return names_; }

  // Of the tokens that end a text or a turn, by the tokenizer, those that carry loss somewhere.
  const std::vector<int64_t>& learnt_ends() const { return learnt_ends_; }

  // Changes with the tokens and with which of them carry loss; part of a run's identity.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  TokenSource() = default;

  std::vector<TokenFile> parts_;
  std::vector<int64_t> starts_;  // of each part
  int64_t vocabulary_ = 0;
  int64_t size_ = 0, with_loss_ = 0;
  std::string names_;
  std::string fingerprint_;
  std::vector<int64_t> learnt_ends_;
};

}  // namespace spillway
