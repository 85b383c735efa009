#include "swap/device/cuda/cuda_status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"

namespace spillway {
namespace {

struct CudaMeaning {
  absl::StatusCode code;
  const char* remedy;
};

CudaMeaning Meaning(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return {absl::StatusCode::kResourceExhausted,
              "lower --device-memory, or end what else uses the GPU (nvidia-smi lists it)"};
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
      return {absl::StatusCode::kFailedPrecondition,
              "the NVIDIA driver is older than this program's CUDA: update it, or use --device "
              "cpu"};
    case cudaErrorStubLibrary:
      return {absl::StatusCode::kFailedPrecondition,
              "the libcuda.so.1 that was found is the toolkit's stub, not the driver's: take its "
              "folder out of LD_LIBRARY_PATH"};
    case cudaErrorSystemDriverMismatch:
      return {absl::StatusCode::kFailedPrecondition,
              "the driver's library and its kernel module are of different versions: reboot "
              "after the update, or give the container the host's libraries"};
    case cudaErrorCompatNotSupportedOnDevice:
      return {absl::StatusCode::kFailedPrecondition,
              "this GPU takes no libraries of a newer CUDA than its driver's: update the driver"};
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
      return {absl::StatusCode::kFailedPrecondition,
              "check CUDA_VISIBLE_DEVICES and nvidia-smi -L, or use --device cpu"};
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceAlreadyInUse:
      return {absl::StatusCode::kUnavailable,
              "another process has the GPU to itself, or its compute mode forbids all use: wait "
              "for that process (nvidia-smi lists it), or allow sharing (nvidia-smi -c DEFAULT)"};
    case cudaErrorSystemNotReady:
      return {absl::StatusCode::kUnavailable,
              "the driver is not ready; where GPUs are joined by NVSwitch, nvidia-fabricmanager "
              "must run"};
    case cudaErrorInitializationError:
      return {absl::StatusCode::kUnavailable,
              "the driver could not be started: nvidia-smi and the kernel log (dmesg) say why"};
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
    case cudaErrorUnsupportedPtxVersion:
      return {absl::StatusCode::kFailedPrecondition,
              "this build has no kernels for this GPU: use another GPU or a newer build"};
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return {absl::StatusCode::kInternal,
              "a kernel faulted: the kernel log has the driver's line about it (dmesg, Xid), and "
              "compute-sanitizer names the kernel"};
    case cudaErrorLaunchTimeout:
      return {absl::StatusCode::kUnavailable,
              "the driver ended a kernel that ran too long: a GPU with a display attached allows "
              "only seconds"};
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorExternalDevice:
      return {absl::StatusCode::kUnavailable,
              "the hardware failed: see the kernel log (dmesg, Xid) and nvidia-smi -q -d ECC"};
    case cudaErrorUnknown:
    case cudaErrorOperatingSystem:
      return {absl::StatusCode::kUnavailable,
              "the driver or the system failed: see nvidia-smi and the kernel log (dmesg)"};
    default:  // what we did wrong, or what CUDA has never been seen to say here
      return {absl::StatusCode::kInternal, nullptr};
  }
}

}  // namespace

absl::Status CudaStatus(cudaError_t error, absl::string_view what) {
  SPILLWAY_CHECK(error != cudaSuccess);
  (void)cudaGetLastError();
  const CudaMeaning meaning = Meaning(error);
  std::string message =
      absl::StrCat(what, ": ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")");
  if (meaning.remedy != nullptr) absl::StrAppend(&message, "; ", meaning.remedy);
  return absl::Status(meaning.code, message);
}

}  // namespace spillway
