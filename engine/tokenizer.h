// From text to tokens and back. `bytes` and `chars` are here; a tokenizer.json's
// byte-pair encoding will be a third implementation of the same interface.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace spillway {

// Encodes one text given in pieces; remembers what a piece's end cut in two. One thread.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // Appends the tokens that `piece` completes. kInvalidArgument names the file and the
  // byte offset of what cannot be encoded.
  virtual absl::Status Encode(absl::string_view piece, std::vector<uint32_t>* tokens) = 0;

  // The text has ended.
  virtual absl::Status Finish(std::vector<uint32_t>* tokens) = 0;
};

// Immutable: any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual absl::string_view kind() const = 0;  // "bytes", "chars"
  virtual int64_t vocabulary_size() const = 0;

  // `source` names the text in errors. The tokenizer must outlive the encoder.
  virtual std::unique_ptr<TextEncoder> NewEncoder(absl::string_view source) const = 0;

  // Bytes of the text; kInvalidArgument for a token outside the vocabulary.
  virtual absl::StatusOr<std::string> Decode(absl::Span<const int64_t> tokens) const = 0;

  // Writes what LoadTokenizer needs into `directory` (atomically).
  virtual absl::Status Save(absl::string_view directory) const = 0;

  // Changes with the vocabulary; part of a run's identity.
  virtual std::string fingerprint() const = 0;

  // A whole text at once.
  absl::StatusOr<std::vector<int64_t>> Encode(absl::string_view text) const;
};

// One token a byte, 256 of them.
std::unique_ptr<Tokenizer> NewByteTokenizer();

// The vocabulary is the sorted distinct code points of these texts, read as a stream.
// kInvalidArgument for invalid UTF-8 (file and byte offset), or no text at all.
absl::StatusOr<std::unique_ptr<Tokenizer>> NewCharTokenizer(const std::vector<std::string>& files);

// What Save wrote: chars.json or bytes.json. kNotFound when the directory has neither;
// kUnimplemented when it has only a tokenizer.json.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(absl::string_view directory);

// `choice` is --tokenizer's: "model" (from `model_directory`), "chars" (from the .txt
// files among `data`), "bytes", a directory, or "": the model's where it has one, else
// chars where there is text, else nullptr (the data is tokens already).
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(absl::string_view choice,
                                                         absl::string_view model_directory,
                                                         const std::vector<std::string>& data);

}  // namespace spillway
