// One open file of raw tokens: where in it they start, and how wide they are. What is read is
// verified, by checksums of our own file or of the first pass over the user's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/chat/jinja_render.h"
#include "engine/data/npy_header.h"
#include "engine/data/scratch_file.h"
#include "engine/data/steady_file.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

// What a file of our own says of a token.
inline constexpr uint8_t kMarkWithoutLoss = 1;  // a prompt's in .jsonl
inline constexpr uint8_t kMarkBegin = 2;        // a line of a .jsonl begins with it

// Movable; closed by the destructor. Reading: any thread.
class TokenFile {
 public:
  // .bin: raw uint16. `scratch_directory`: for checksums.
  static absl::StatusOr<TokenFile> OpenBin(absl::string_view path,
                                           absl::string_view scratch_directory);
  // .npy: versions 1 to 3, one dimension, little-endian integers.
  static absl::StatusOr<TokenFile> OpenNpy(absl::string_view path,
                                           absl::string_view scratch_directory);
  // .txt or .jsonl, encoded into a file in `scratch_directory` that loses its name at once.
  // `begins_lines`, `ends_lines`, `chat_clock`: DataSink's.
  static absl::StatusOr<TokenFile> Encode(absl::string_view path, const Tokenizer& tokenizer,
                                          absl::string_view scratch_directory,
                                          bool begins_lines = true, bool ends_lines = true,
                                          ChatClock chat_clock = {});

  int64_t size() const { return format_.tokens; }
  // Whether it says where samples begin: a .jsonl does.
  bool has_samples() const { return format_.flagged; }

  // The same as Read of the next tokens, from the first one on: every file is read so once, before
  // anything else. One thread.
  absl::Status ReadNext(int64_t count, int64_t vocabulary, int64_t* out, uint8_t* marks);
  absl::Status EndFirstPass();

  // Tokens [first, first + count); kInvalidArgument names the first that is not in
  // [0, vocabulary). `marks` may be null; else it gets the kMark... of each. kDataLoss as of
  // ScratchFile::Read and SteadyFile::Read. REQUIRES: they exist, and EndFirstPass.
  absl::Status Read(int64_t first, int64_t count, int64_t vocabulary, int64_t* out,
                    uint8_t* marks = nullptr) const;

 private:
  TokenFile(std::string path, TokenFormat format) : path_(std::move(path)), format_(format) {}
  static absl::StatusOr<TokenFile> OpenRaw(const std::string& path, TokenFormat format,
                                           absl::string_view scratch_directory);
  using ReadBytes = absl::FunctionRef<absl::Status(uint64_t offset_bytes, char* out, uint64_t n)>;
  absl::Status ReadBy(ReadBytes read, int64_t first, int64_t count, int64_t vocabulary,
                      int64_t* out, uint8_t* marks) const;

  std::string path_;  // of the data, for messages
  TokenFormat format_;
  std::unique_ptr<SteadyFile> file_;  // of the user; null: the tokens are in `encoded_`
  std::optional<ScratchFile> encoded_;
  int64_t next_ = 0;  // token of the first pass
};

}  // namespace spillway
