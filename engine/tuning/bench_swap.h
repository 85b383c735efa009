// How fast bytes get between the tiers of this machine, each way alone and both at once, and how
// fast workers check them: so that a person sees which link binds.
//
// On the CPU, device and host are the same memory and nothing is copied between them. A device with
// memory of its own has its link measured. What a
// copy of memory to memory takes is measured all the same: it shares the memory's bandwidth
// with transfers.
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
  std::vector<std::string> paths;  // existing folders, each once
  IoEngineOptions io;
  int workers = 2;
  // With memory of its own, and nothing under way there; null: the CPU. `device_text` says which,
  // as --device does, and `why_no_link` why it has none.
  Device* device = nullptr;
  std::string device_text = "cpu";
  std::string why_no_link = "device and host are the same memory: nothing is copied between them";
  uint64_t file_bytes = uint64_t{1} << 30;  // of all test files together
  double seconds = 10;                      // about
  std::function<bool()> stopped;            // looked at before each block; may be empty
};

// Bytes a second: medians over rounds in which each is measured once.
struct SwapBenchResult {
  std::vector<std::string> paths;
  std::string engine;
  IoEngineOptions io;
  int workers = 0;

  // NVMe to host, and host to NVMe.
  double read_alone = 0, write_alone = 0;
  double read_both = 0, write_both = 0;  // at the same time, each at its own pace

  // Of memory to memory (copied bytes, not read and written), and of checksums: by one worker, by
  // all, and by all while the disk goes both ways, with what the disk then does.
  struct Workers {
    double one = 0, all = 0, with_disk = 0;
    double disk = 0;
  };
  Workers copy, checksum;

  std::string device;                   // "cpu", "cuda:0 (NVIDIA H200)"
  std::optional<LinkMeasurement> link;  // between pinned host memory and the device's
  std::string why_no_link;

  double disk_both() const { return read_both + write_both; }
  // Of a step that reads and writes all its state, checksums included: "disk" or "checksum".
  std::string Binding() const;
};

// Of the host: 64 MiB a worker, as much as the queue holds, and 32 MiB beside those of a device.
uint64_t SwapBenchMemoryBytes(const SwapBenchOptions& options);

// An error names the path that can't be written to, or has no room; kAborted where the system does
// not start the workers; kCancelled when stopped.
absl::StatusOr<SwapBenchResult> RunSwapBench(const SwapBenchOptions& options);

// At most 80 columns.
std::string SwapBenchText(const SwapBenchResult& result);
nlohmann::json SwapBenchJson(const SwapBenchResult& result);

}  // namespace spillway
