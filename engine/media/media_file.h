// A picture or audio file that a library decodes. It must be a plain file, since a pipe or a device
// may block or never end. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/stop_signal.h"
#include "io/base/unique_fd.h"

namespace spillway {

class MediaFile {
 public:
  // kNotFound and other errors of opening; kInvalidArgument for an empty file, or anything but a
  // plain one.
  static absl::StatusOr<std::unique_ptr<MediaFile>> Open(const std::string& path);

  uint64_t size_bytes() const { return size_bytes_; }
  uint64_t offset() const { return offset_; }
  // Sets the position; beyond the end nothing is read.
  void Seek(uint64_t offset) { offset_ = offset; }

  // Reads the next bytes; fewer only at the end of the file. Returns 0 at the end, after an error,
  // and after GivesUp.
  size_t Read(void* to, size_t bytes);

  // Whether a signal asks to abandon the work (StopPatience).
  bool GivesUp() { return given_up_ = given_up_ || patience_.Ends(); }
  // OK; kCancelled after GivesUp; or the error of Read.
  absl::Status status() const;

 private:
  MediaFile(std::string path, UniqueFd fd, uint64_t size_bytes)
      : path_(std::move(path)), fd_(std::move(fd)), size_bytes_(size_bytes) {}

  const std::string path_;
  const UniqueFd fd_;
  const uint64_t size_bytes_;
  uint64_t offset_ = 0;
  int error_ = 0;  // errno of Read
  StopPatience patience_;
  bool given_up_ = false;
};

}  // namespace spillway
