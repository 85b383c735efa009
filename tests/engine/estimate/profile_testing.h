// A made-up machine with a tuning of two disks.
#pragma once

#include <vector>

#include "engine/estimate/machine_profile.h"

namespace spillway {

inline constexpr int64_t kTestDay = 24 * 3600;
inline constexpr int64_t kTestNow = 1800000000;

inline MachineIdentity TestMachine() { return {"key", "here", "6.1.0", 4, 8 << 20}; }

inline std::vector<BlockDevice> TestDevices() {
  return {{"259:0", "nvme0n1p1", "Fast", "S1", 1000 << 20, "ext4"},
          {"259:1", "nvme1n1", "Slow", "S2", 2000 << 20, "xfs"}};
}

inline TunedEntry TestTuning() {
  TunedEntry entry;
  entry.engine = "io_uring";
  entry.block_bytes = 512 << 10;
  entry.depth = 16;
  entry.threads = 8;
  entry.rates = {5e9, 4e9, 4.5e9};
  entry.devices = {{TestDevices()[0], {4e9, 3e9, 3e9}}, {TestDevices()[1], {1e9, 1e9, 1e9}}};
  entry.kernel = "6.1.0";
  entry.cpus = 4;
  entry.locked_memory_bytes = 8 << 20;
  entry.unix_seconds = kTestNow;
  return entry;
}

}  // namespace spillway
