#include "swap/device/cuda/cuda_facts.h"

#include <cuda_runtime_api.h>

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "swap/device/cuda/cuda_status.h"

namespace spillway {
namespace {

constexpr int kLeastCapability = 75;

std::string Version(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

std::string Capability(int capability) {
  return absl::StrCat(capability / 10, ".", capability % 10);
}

absl::Status NoDriver() {
  return absl::FailedPreconditionError(
      "no NVIDIA driver is installed (or libcuda.so.1 is not found): install one, in a container "
      "start it with the GPUs given to it (--gpus all), or use --device cpu");
}

absl::Status OldDriver(const CudaFacts& facts) {
  return absl::FailedPreconditionError(
      absl::StrCat("the NVIDIA driver runs CUDA up to ", Version(facts.driver_version),
                   ", and this program needs CUDA ", Version(facts.runtime_version),
                   ": update the driver, or use --device cpu"));
}

absl::Status NoDevice() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return absl::FailedPreconditionError(
      visible == nullptr
          ? "there is an NVIDIA driver, but no GPU that CUDA can use (nvidia-smi -L lists those "
            "of the driver); use --device cpu"
          : absl::StrCat("no GPU is visible: CUDA_VISIBLE_DEVICES is \"", visible,
                         "\"; correct or unset it, or use --device cpu"));
}

}  // namespace

absl::StatusOr<CudaFacts> ReadCudaFacts() {
  CudaFacts facts;
  if (const cudaError_t error = cudaDriverGetVersion(&facts.driver_version); error != cudaSuccess) {
    return CudaStatus(error, "cudaDriverGetVersion");
  }
  if (const cudaError_t error = cudaRuntimeGetVersion(&facts.runtime_version);
      error != cudaSuccess) {
    return CudaStatus(error, "cudaRuntimeGetVersion");
  }
  if (facts.driver_version == 0) return NoDriver();
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess) {
    const absl::Status status = CudaStatus(error, "cudaGetDeviceCount");
    if (error == cudaErrorInsufficientDriver) return OldDriver(facts);
    if (error == cudaErrorNoDevice) return NoDevice();
    return status;
  }
  if (devices == 0) return NoDevice();
  for (int ordinal = 0; ordinal < devices; ++ordinal) {
    ASSIGN_OR_RETURN(CudaDeviceFacts device, ReadCudaDevice(ordinal));
    facts.devices.push_back(std::move(device));
  }
  return facts;
}

absl::StatusOr<CudaDeviceFacts> ReadCudaDevice(int ordinal) {
  cudaDeviceProp properties = {};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
      error != cudaSuccess) {
    return CudaStatus(error, absl::StrCat("cudaGetDeviceProperties of device ", ordinal));
  }
  CudaDeviceFacts device;
  device.ordinal = ordinal;
  device.name = properties.name;
  device.capability = properties.major * 10 + properties.minor;
  device.total_bytes = properties.totalGlobalMem;
  device.pci_address = absl::StrFormat("%04x:%02x:%02x.0", properties.pciDomainID,
                                       properties.pciBusID, properties.pciDeviceID);
  device.numa_node = properties.hostNumaId;
  return device;
}

absl::Status CheckCudaDevice(const CudaDeviceFacts& device) {
  if (device.capability >= kLeastCapability) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      device.name, " (device ", device.ordinal, ") has compute capability ",
      Capability(device.capability), ", and Spillway needs ", Capability(kLeastCapability),
      " (Turing) or later: choose another GPU (CUDA_VISIBLE_DEVICES), or use --device cpu"));
}

absl::Status CheckCudaBf16(const CudaDeviceFacts& device) {
  if (device.has_bf16()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(device.name, " (device ", device.ordinal, ", compute capability ",
                   Capability(device.capability), ") does not compute in bf16: use --dtype fp16"));
}

absl::StatusOr<int> ChooseCudaOrdinal(const char* local_rank, int devices) {
  SPILLWAY_CHECK(devices > 0);
  if (local_rank == nullptr) return 0;
  int rank = 0;
  if (!absl::SimpleAtoi(local_rank, &rank) || rank < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("LOCAL_RANK is \"", local_rank,
                     "\" and should be this rank's number on its machine, from 0"));
  }
  if (rank >= devices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "LOCAL_RANK is ", rank, ", and ", devices, devices == 1 ? " GPU is" : " GPUs are",
        " visible here, for the local ranks below ", devices,
        ": start as many ranks on a machine as it has GPUs, and let each see all of them"));
  }
  return rank;
}

absl::StatusOr<CudaMemory> ReadCudaMemory(int ordinal) {
  if (const cudaError_t error = cudaSetDevice(ordinal); error != cudaSuccess) {
    return CudaStatus(error, absl::StrCat("cudaSetDevice to device ", ordinal));
  }
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (const cudaError_t error = cudaMemGetInfo(&free_bytes, &total_bytes); error != cudaSuccess) {
    return CudaStatus(error, absl::StrCat("cudaMemGetInfo of device ", ordinal));
  }
  return CudaMemory{free_bytes, total_bytes};
}

}  // namespace spillway
