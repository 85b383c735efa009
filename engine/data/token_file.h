// An open file of raw tokens: their offset and width in it. Reads are verified by the checksums of
// our own file, or of the first pass over the user's.
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

// Marks of a token, stored in our own files only.
inline constexpr uint8_t kMarkWithoutLoss = 1;  // in a prompt of a .jsonl
inline constexpr uint8_t kMarkBegin = 2;        // the first one of a .jsonl's line

// Movable; the destructor closes it. Reading: any thread.
class TokenFile {
 public:
  // Opens a .bin: raw uint16. `scratch_directory`: for checksums.
  static absl::StatusOr<TokenFile> OpenBin(absl::string_view path,
                                           absl::string_view scratch_directory);
  // Opens a .npy: versions 1 to 3, one dimension, little-endian integers.
  static absl::StatusOr<TokenFile> OpenNpy(absl::string_view path,
                                           absl::string_view scratch_directory);
  // Encodes a .txt or .jsonl into a file without a name in `scratch_directory`. `begins_lines`,
  // `ends_lines`, `chat_clock`: DataSink's.
  static absl::StatusOr<TokenFile> Encode(absl::string_view path, const Tokenizer& tokenizer,
                                          absl::string_view scratch_directory,
                                          bool begins_lines = true, bool ends_lines = true,
                                          ChatClock chat_clock = {});

  int64_t size() const { return format_.tokens; }
  // Whether it marks the starts of samples: a .jsonl does.
  bool has_samples() const { return format_.flagged; }

  // Read for the next tokens of the first pass, which goes over every file once in order before
  // anything else. One thread.
  absl::Status ReadNext(int64_t count, int64_t vocabulary, int64_t* out, uint8_t* marks);
  absl::Status EndFirstPass();

  // Reads tokens [first, first + count); kInvalidArgument names the first one outside [0,
  // vocabulary). `marks`, if not null, gets the kMark... of each. kDataLoss as in ScratchFile::Read
  // and SteadyFile::Read. REQUIRES: they exist, and EndFirstPass.
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
  std::unique_ptr<SteadyFile> file_;  // the user's; null: the tokens are in `encoded_`
  std::optional<ScratchFile> encoded_;
  int64_t next_ = 0;  // the first pass's next token
};

}  // namespace spillway
