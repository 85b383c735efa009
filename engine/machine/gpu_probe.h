// The GPUs and their driver, asked through the driver's own library at run time: no build
// needs it, and a machine without one has nothing to load.
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
  bool kernel_driver = false;       // /proc/driver/nvidia or /dev/nvidiactl is there
  bool management_library = false;  // libnvidia-ml.so.1 could be loaded
  bool compute_library = false;     // libcuda.so.1 could be loaded
  std::string error;                // of the driver, where it does not answer
  std::string driver_version;       // "580.95.05"
  int cuda_version = 0;             // the newest CUDA it runs: 13000 is 13.0
  std::vector<Device> devices;
};

// Whether this machine has a GPU of NVIDIA's, usable or not: a device file, the kernel's driver, or
// a display controller of that vendor on the PCI bus. `root`: of the files that are looked at; ""
// is this machine's. Any thread.
bool HasNvidiaGpu(const std::string& root = "");

// Any thread. The libraries are found as the loader finds them.
GpuFacts ProbeGpus();

// What the driver says is free on the GPU of that PCI address ("0000:17:00.0"), without making a
// context there. None where it can't be asked.
std::optional<uint64_t> GpuFreeBytes(const std::string& pci_address);

}  // namespace spillway
