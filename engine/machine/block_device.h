// What lies below a directory: the file system mounted there, and the device it is on.
#pragma once

#include <cstdint>
#include <string>

namespace spillway {

struct MountPoint {
  std::string filesystem;  // "ext4", as the kernel calls it; "" where it does not say
  std::string source;      // what is mounted there: "/dev/nvme0n1p1"
};

// The mount that `path` lies in; links are followed. Any thread.
MountPoint FindMount(const std::string& path);

// Enough to tell a device from another that has taken its number. What the kernel does not
// say is "" or 0.
struct BlockDevice {
  std::string number;  // "259:1"
  std::string name;    // "nvme0n1p1"
  std::string model;
  std::string serial;
  uint64_t size_bytes = 0;
  std::string filesystem;

  friend bool operator==(const BlockDevice&, const BlockDevice&) = default;
};

// The device below an existing `path`. Of a file system with a number of its own (btrfs,
// overlay, NFS) it is the device mounted there, or else that number alone. Any thread.
BlockDevice FindBlockDevice(const std::string& path);

// The first line of a file such as the kernel's below /sys, without the space around it; "" where
// it cannot be read. Any thread.
std::string ReadFirstLine(const std::string& path);

}  // namespace spillway
