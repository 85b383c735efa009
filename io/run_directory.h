// A directory that belongs to one run and rank alone.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

// Creates (0700) or opens a directory and holds its lock until destruction.
// Refused, each with its reason: a directory of another user, a symbolic link
// in the last component, a lock held by a living process (kFailedPrecondition,
// naming its pid). The parent must exist; it may be world-writable and may
// itself be a symbolic link.
class RunDirectory {
 public:
  static absl::StatusOr<std::unique_ptr<RunDirectory>> Open(absl::string_view path);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  RunDirectory(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  std::string path_;
  int lock_fd_;
};

}  // namespace spillway
