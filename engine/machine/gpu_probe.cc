#include "engine/machine/gpu_probe.h"

#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/machine/block_device.h"

namespace spillway {
namespace {

// The few calls of NVML that are needed, with the types of its stable interface
// (https://docs.nvidia.com/deploy/nvml-api). Every call returns 0 for success.
using NvmlDevice = struct NvmlDeviceHandle*;
struct NvmlMemory {
  unsigned long long total, free, used;
};

class Nvml {
 public:
  explicit Nvml(void* library) : library_(library) {}

  template <typename... Args>
  int Call(const char* name, Args... args) const {
    auto* function = reinterpret_cast<int (*)(Args...)>(::dlsym(library_, name));
    return function == nullptr ? kFunctionNotFound : function(args...);
  }

  std::string ErrorText(int error) const {
    auto* text = reinterpret_cast<const char* (*)(int)>(::dlsym(library_, "nvmlErrorString"));
    const char* words = text == nullptr ? nullptr : text(error);
    return words == nullptr ? absl::StrCat("error ", error) : words;
  }

 private:
  static constexpr int kFunctionNotFound = 13;
  void* const library_;
};

void ReadDevices(const Nvml& nvml, GpuFacts* facts) {
  char text[96] = "";
  if (nvml.Call("nvmlSystemGetDriverVersion", text, unsigned{sizeof(text)}) == 0) {
    facts->driver_version = text;
  }
  nvml.Call("nvmlSystemGetCudaDriverVersion", &facts->cuda_version);
  unsigned count = 0;
  if (const int error = nvml.Call("nvmlDeviceGetCount_v2", &count); error != 0) {
    facts->error = nvml.ErrorText(error);
    return;
  }
  for (unsigned i = 0; i < count; ++i) {
    NvmlDevice handle = nullptr;
    if (const int error = nvml.Call("nvmlDeviceGetHandleByIndex_v2", i, &handle); error != 0) {
      facts->error = absl::StrCat("GPU ", i, ": ", nvml.ErrorText(error));
      continue;
    }
    GpuFacts::Device device;
    char name[96] = "";
    if (nvml.Call("nvmlDeviceGetName", handle, name, unsigned{sizeof(name)}) == 0) {
      device.name = name;
    }
    NvmlMemory memory = {};
    if (nvml.Call("nvmlDeviceGetMemoryInfo", handle, &memory) == 0) {
      device.total_bytes = memory.total;
      device.free_bytes = memory.free;
    }
    facts->devices.push_back(std::move(device));
  }
}

bool CanLoad(const char* library) {
  void* handle = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

using Library = std::unique_ptr<void, int (*)(void*)>;
Library LoadNvml() {
  return Library(::dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL), &::dlclose);
}

}  // namespace

bool HasNvidiaGpu(const std::string& root) {
  for (const char* path : {"/dev/nvidia0", "/dev/nvidiactl", "/proc/driver/nvidia/version"}) {
    if (::access((root + path).c_str(), F_OK) == 0) return true;
  }
  const std::string bus = root + "/sys/bus/pci/devices";
  const auto close = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> folder(::opendir(bus.c_str()), close);
  if (folder == nullptr) return false;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string device = absl::StrCat(bus, "/", entry->d_name);
    if (ReadFirstLine(device + "/vendor") == "0x10de" &&
        absl::StartsWith(ReadFirstLine(device + "/class"), "0x03")) {
      return true;
    }
  }
  return false;
}

GpuFacts ProbeGpus() {
  GpuFacts facts;
  facts.hardware = HasNvidiaGpu();
  facts.kernel_driver =
      ::access("/proc/driver/nvidia/version", F_OK) == 0 || ::access("/dev/nvidiactl", F_OK) == 0;
  facts.compute_library = CanLoad("libcuda.so.1");
  const Library library = LoadNvml();
  if (library == nullptr) return facts;
  facts.management_library = true;
  const Nvml nvml(library.get());
  if (const int error = nvml.Call("nvmlInit_v2"); error != 0) {
    facts.error = nvml.ErrorText(error);
    return facts;
  }
  ReadDevices(nvml, &facts);
  nvml.Call("nvmlShutdown");
  return facts;
}

std::optional<uint64_t> GpuFreeBytes(const std::string& pci_address) {
  const Library library = LoadNvml();
  if (library == nullptr) return std::nullopt;
  const Nvml nvml(library.get());
  if (nvml.Call("nvmlInit_v2") != 0) return std::nullopt;
  NvmlDevice handle = nullptr;
  NvmlMemory memory = {};
  const bool known =
      nvml.Call("nvmlDeviceGetHandleByPciBusId_v2", pci_address.c_str(), &handle) == 0 &&
      nvml.Call("nvmlDeviceGetMemoryInfo", handle, &memory) == 0;
  nvml.Call("nvmlShutdown");
  return known ? std::optional<uint64_t>(memory.free) : std::nullopt;
}

}  // namespace spillway
