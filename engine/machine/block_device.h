// The file system mounted below a directory, and its device.
#pragma once

#include <cstdint>
#include <string>

namespace spillway {

struct MountPoint {
  std::string filesystem;  // "ext4", as the kernel calls it; "" if unknown
  std::string source;      // the mount's source: "/dev/nvme0n1p1"
};

// The mount that `path` lies in; links are followed. Any thread.
MountPoint FindMount(const std::string& path);

// Identifies a device even if another one has taken its number. Values that the kernel does not
// report are "" or 0.
struct BlockDevice {
  std::string number;  // "259:1"
  std::string name;    // "nvme0n1p1"
  std::string model;
  std::string serial;
  uint64_t size_bytes = 0;
  std::string filesystem;

  friend bool operator==(const BlockDevice&, const BlockDevice&) = default;
};

// The device below an existing `path`. For a file system with its own device number (btrfs,
// overlay, NFS) it is the mounted device, or else that number alone. Any thread.
BlockDevice FindBlockDevice(const std::string& path);

// The first line of a file such as those below /sys, without surrounding space; "" if it cannot be
// read. Any thread.
std::string ReadFirstLine(const std::string& path);

}  // namespace spillway
