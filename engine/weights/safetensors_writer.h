// Writes safetensors as a stream: the header first, then the data in its order, with no more memory
// than one piece.
//
// A file gets its name only when it is complete and durable. Until then it is NAME.partial in the
// same directory, which the next writer of that name replaces.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/numeric/dtype.h"
#include "io/file_system.h"

namespace spillway {

// A tensor to be written.
struct ExportTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<uint64_t> shape;  // empty: a scalar
  std::string file = {};        // name in a sharded model; empty: chosen by size
  bool whole = false;           // whole numbers: I64, whatever `dtype` is

  uint64_t elements() const;
  uint64_t size_bytes() const { return elements() * (whole ? 8 : DTypeBytes(dtype)); }
};

// Writes one file. One thread.
class SafetensorsWriter {
 public:
  // Adds {"format": "pt"} to `metadata` (transformers requires it). REQUIRES: names are unique, and
  // none is "__metadata__".
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      absl::string_view path, std::vector<ExportTensor> tensors,
      std::map<std::string, std::string> metadata = {}, FileSystem& files = FileSystem::Real());
  // Removes the file unless Finish has succeeded.
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // Appends the next `count` elements, row-major, tensor after tensor; a call may end within a
  // tensor but not go past it. Values are rounded to the tensor's dtype, to nearest, ties to even.
  // kOutOfRange, naming the tensor, for a finite value that would become infinite (fp16 from 65520
  // on), or a fraction in a tensor of whole numbers. REQUIRES: elements beyond the declared ones
  // are not appended.
  absl::Status AppendFp32(const float* values, uint64_t count);

  // Appends elements already in the tensor's dtype, little-endian.
  absl::Status AppendRaw(const void* data, uint64_t size_bytes);

  // Whether every element of every tensor has been appended.
  bool complete() const { return current_ == tensors_.size(); }

  // Makes the file durable and renames it. REQUIRES: every tensor is complete.
  absl::Status Finish();

 private:
  SafetensorsWriter(FileSystem& files, std::string path, std::vector<ExportTensor> tensors);
  absl::Status AppendWhole(const float* values, uint64_t count);
  absl::Status WriteAll(const void* data, uint64_t size_bytes);
  absl::Status Flush();
  void SkipComplete();

  FileSystem& files_;
  std::string path_;
  std::string partial_;
  std::vector<ExportTensor> tensors_;
  size_t current_ = 0;          // the tensor that takes the next element
  uint64_t written_bytes_ = 0;  // of the current tensor
  std::string buffer_;
  std::unique_ptr<NewFile> file_;  // null once it has its name
};

}  // namespace spillway
