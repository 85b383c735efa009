// Measures the transfer rates between the tiers of this machine, each way alone and both at once,
// and the workers' checksum rate, so that a person sees which link is the slowest.
//
// On the CPU, device and host are the same memory and nothing is copied between them; the link is
// measured for a device with memory of its own. Copies from memory to memory are always measured,
// since they share the memory's bandwidth with transfers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/estimate/device_probe.h"
#include "io/io_engine.h"
#include "nlohmann/json.hpp"
#include "swap/device/device.h"

namespace spillway {

struct SwapBenchOptions {
  std::vector<std::string> paths;  // existing folders, without duplicates
  IoEngineOptions io;
  int workers = 2;
  // A device with memory of its own and nothing under way; null: the CPU. `device_text` names it,
  // as --device does, and `why_no_link` says why there is no link.
  Device* device = nullptr;
  std::string device_text = "cpu";
  std::string why_no_link = "device and host are the same memory: nothing is copied between them";
  uint64_t file_bytes = uint64_t{1} << 30;  // of all test files together
  double seconds = 10;                      // approximate duration
  std::function<bool()> stopped;            // checked before each block; may be empty
};

// Rates in bytes a second: medians over rounds in which each is measured once.
struct SwapBenchResult {
  std::vector<std::string> paths;
  std::string engine;
  IoEngineOptions io;
  int workers = 0;

  // NVMe to host, and host to NVMe.
  double read_alone = 0, write_alone = 0;
  double read_both = 0, write_both = 0;  // at the same time, each at its own rate

  // Rates of copies from memory to memory (bytes copied) and of checksums: by one worker, by all,
  // and by all while the disk reads and writes, together with the disk's rates then.
  struct Workers {
    double one = 0, all = 0, with_disk = 0;
    double disk = 0;
  };
  Workers copy, checksum;

  std::string device;                   // "cpu", "cuda:0 (NVIDIA H200)"
  std::optional<LinkMeasurement> link;  // between pinned host memory and the device
  std::string why_no_link;

  double disk_both() const { return read_both + write_both; }
  // The slower part of a step that reads and writes all its state with checksums: "disk" or
  // "checksum".
  std::string Binding() const;
};

// Host memory used: 64 MiB per worker, the queue's buffers, and 32 MiB for the copies of a device.
uint64_t SwapBenchMemoryBytes(const SwapBenchOptions& options);

// An error names the path that cannot be written to, or has no room; kAborted if the system does
// not start the workers; kCancelled when stopped.
absl::StatusOr<SwapBenchResult> RunSwapBench(const SwapBenchOptions& options);

// Text of at most 80 columns.
std::string SwapBenchText(const SwapBenchResult& result);
nlohmann::json SwapBenchJson(const SwapBenchResult& result);

}  // namespace spillway
