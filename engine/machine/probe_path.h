// Tests a directory as a place for swap files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

struct PathFacts {
  std::string path;  // as given
  // OK if a file could be created, written and read back, else the failure.
  absl::Status status;
  bool exists = false;
  bool is_directory = false;
  bool writable = false;         // for this process
  uint32_t owner = 0;            // user id
  std::string filesystem;        // "ext4", as the kernel calls it; "" if unknown
  std::string source;            // the mount's source: "/dev/nvme0n1p1"
  bool direct = false;           // O_DIRECT transfers work
  uint32_t alignment_bytes = 0;  // of direct transfers
  bool reserves = false;         // fallocate works
  uint64_t free_bytes = 0, total_bytes = 0;
  uint64_t free_inodes = 0, total_inodes = 0;  // total 0: allocated on demand
  std::optional<bool> rotational;              // a spinning disk, if sysfs reports it
  std::string drive;                           // model name, if sysfs reports it
};

enum class FilesystemKind { kDisk, kMemory, kNetwork, kOverlay };

// The kind of a file system's name: "tmpfs", "nfs4", "fuse.sshfs", "overlay". Pure.
FilesystemKind KindOfFilesystem(absl::string_view name);

// Whether it is a pseudo file system of the kernel (proc, sysfs, ...), which takes no files. Pure.
bool IsKernelFilesystem(absl::string_view name);

// Creates a file without a name below `path` (or one that is unlinked at once), so that nothing is
// left behind. Any thread.
PathFacts ProbePath(const std::string& path);

}  // namespace spillway
