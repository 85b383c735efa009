// Reads one file of weights: safetensors, or written by torch.save.
//
// A file's header is checked before its data is used: a header that breaks a rule of the format
// (engine/weights/safetensors_header.h) is kDataLoss, "wrong bytes". Data is read by pread, piece
// by piece, without mapping or caching. Files of torch.save (engine/weights/torch_file.h) are read
// if their names do not end in .safetensors; they have no metadata.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/weights/safetensors_header.h"
#include "io/base/unique_fd.h"

namespace spillway {

// Any thread: reads change no state.
class SafetensorsFile {
 public:
  // Symbolic links are followed (Hugging Face's cache consists of them). kNotFound if there is no
  // such file, kInvalidArgument if it is not a plain file, kDataLoss if a rule is broken.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(absl::string_view path);
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return size_bytes_; }
  const std::vector<SafetensorsTensor>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // The tensor of that name, nullptr if there is none.
  const SafetensorsTensor* Find(absl::string_view name) const;

  // Reads elements [first, first + count) as fp32: F32, F16 and BF16 exactly, I64 rounded.
  // kInvalidArgument for another dtype, kNotFound for an unknown name, kOutOfRange for elements it
  // does not have, kDataLoss if the file has become shorter.
  absl::Status ReadFp32(absl::string_view name, uint64_t first, uint64_t count, float* out) const;

  // Reads bytes [first, first + count) of a tensor of any dtype. Errors as for ReadFp32.
  absl::Status ReadBytes(absl::string_view name, uint64_t first, uint64_t count, void* out) const;

  // A digest of the header, the file's size and the first 4 KiB of every tensor: distinguishes
  // models without reading them whole.
  absl::StatusOr<uint64_t> Fingerprint() const;

 private:
  SafetensorsFile() = default;
  // Derives from header_ the index by name and the digest of the description.
  void IndexTensors();

  UniqueFd fd_;
  std::string path_;
  SafetensorsHeader header_;
  uint64_t header_digest_ = 0;
  uint64_t size_bytes_ = 0;
  std::map<std::string, size_t> by_name_;
};

}  // namespace spillway
