// What a directory offers as a place for swap files, found out by trying.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

struct PathFacts {
  std::string path;  // as given
  // OK where a file could be made, written and read back; else what stood in the way.
  absl::Status status;
  bool exists = false;
  bool is_directory = false;
  bool writable = false;         // for this process
  uint32_t owner = 0;            // user id
  std::string filesystem;        // "ext4", as the kernel calls it; "" where it does not say
  std::string source;            // what is mounted there: "/dev/nvme0n1p1"
  bool direct = false;           // O_DIRECT moved bytes there and back
  uint32_t alignment_bytes = 0;  // of direct transfers
  bool reserves = false;         // fallocate works
  uint64_t free_bytes = 0, total_bytes = 0;
  uint64_t free_inodes = 0, total_inodes = 0;  // total 0: made as needed
  std::optional<bool> rotational;              // a spinning disk, where sysfs tells
  std::string drive;                           // its model, where sysfs tells
};

enum class FilesystemKind { kDisk, kMemory, kNetwork, kOverlay };

// Of a file system's name: "tmpfs", "nfs4", "fuse.sshfs", "overlay". Pure.
FilesystemKind KindOfFilesystem(absl::string_view name);

// Whether it is one of the kernel's own (proc, sysfs, ...), in which nobody makes files. Pure.
bool IsKernelFilesystem(absl::string_view name);

// Makes a file without a name below `path`, so that nothing stays behind whatever happens
// (or, where the file system has no such files, one that loses its name at once). Any thread.
PathFacts ProbePath(const std::string& path);

}  // namespace spillway
