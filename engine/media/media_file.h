// A file of a picture or a sound, read from its beginning by a library that decodes it: a plain
// file and nothing else, as a pipe or a device may never answer or never end. One thread.
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
  // kNotFound and what else opening says; kInvalidArgument where it is no plain file, or is empty.
  static absl::StatusOr<std::unique_ptr<MediaFile>> Open(const std::string& path);

  uint64_t size_bytes() const { return size_bytes_; }
  uint64_t offset() const { return offset_; }
  // Beyond the end nothing is read.
  void Seek(uint64_t offset) { offset_ = offset; }

  // The next bytes, fewer only at the end of the file: 0 there, after an error, and where the work
  // is to be given up (StopPatience).
  size_t Read(void* to, size_t bytes);

  // Whether a signal asks to give the work up.
  bool GivesUp() { return given_up_ = given_up_ || patience_.Ends(); }
  // OK; kCancelled where it was given up; or why Read failed.
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
