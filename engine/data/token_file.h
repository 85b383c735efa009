// One open file of raw tokens: where in it they start, and how wide they are.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/npy_header.h"
#include "engine/data/tokenizer.h"
#include "io/base/unique_fd.h"

namespace spillway {

// What a file of our own says of a token.
inline constexpr uint8_t kMarkWithoutLoss = 1;  // a prompt's in .jsonl
inline constexpr uint8_t kMarkBegin = 2;        // a line of a .jsonl begins with it

// Movable; closed by the destructor. Reading: any thread.
class TokenFile {
 public:
  // .bin: raw uint16.
  static absl::StatusOr<TokenFile> OpenBin(absl::string_view path);
  // .npy: versions 1 to 3, one dimension, little-endian integers.
  static absl::StatusOr<TokenFile> OpenNpy(absl::string_view path);
  // .txt or .jsonl, encoded into a file in `scratch_directory` that loses its name at once.
  // `begins_lines`, `ends_lines`: DataSink's.
  static absl::StatusOr<TokenFile> Encode(absl::string_view path, const Tokenizer& tokenizer,
                                          absl::string_view scratch_directory,
                                          bool begins_lines = true, bool ends_lines = true);

  int64_t size() const { return format_.tokens; }
  // Whether it says where samples begin: a .jsonl does.
  bool has_samples() const { return format_.flagged; }

  // Tokens [first, first + count); kInvalidArgument names the first that is not in
  // [0, vocabulary). `marks` may be null; else it gets the kMark... of each. REQUIRES: they
  // exist.
  absl::Status Read(int64_t first, int64_t count, int64_t vocabulary, int64_t* out,
                    uint8_t* marks = nullptr) const;

 private:
  TokenFile(UniqueFd fd, std::string path, TokenFormat format)
      : fd_(std::move(fd)), path_(std::move(path)), format_(format) {}

  UniqueFd fd_;
  std::string path_;  // of the data, for messages
  TokenFormat format_;
};

}  // namespace spillway
