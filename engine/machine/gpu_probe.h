// Probes GPUs and their driver through the driver's own library at run time: no build needs it, and
// a machine without a GPU loads nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

struct GpuFacts {
  struct Device {
    std::string name;
    uint64_t total_bytes = 0;
    uint64_t free_bytes = 0;
  };
  bool hardware = false;            // HasNvidiaGpu
  bool kernel_driver = false;       // /proc/driver/nvidia or /dev/nvidiactl exists
  bool management_library = false;  // libnvidia-ml.so.1 could be loaded
  bool compute_library = false;     // libcuda.so.1 could be loaded
  std::string error;                // the driver's error, if it does not respond
  std::string driver_version;       // "580.95.05"
  int cuda_version = 0;             // the newest CUDA it supports: 13000 is 13.0
  std::vector<Device> devices;
};

// Whether this machine has an NVIDIA GPU, usable or not: a device file, the kernel's driver, or a
// display controller of that vendor on the PCI bus. `root`: prefix of the files that are read; ""
// is this machine's. Any thread.
bool HasNvidiaGpu(const std::string& root = "");

// Any thread. The libraries are found by the loader's search path.
GpuFacts ProbeGpus();

// Free memory of the GPU at that PCI address ("0000:17:00.0"), as its driver reports it without a
// context. None if unavailable.
std::optional<uint64_t> GpuFreeBytes(const std::string& pci_address);

}  // namespace spillway
