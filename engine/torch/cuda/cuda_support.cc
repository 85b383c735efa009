#include "engine/torch/cuda_support.h"

#include <ATen/Context.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/machine/gpu_probe.h"
#include "engine/torch/cuda/cuda_tensor_kernels.h"
#include "engine/torch/cuda/cuda_torch_memory.h"
#include "engine/torch/cuda/nccl_ranks.h"
#include "io/base/status.h"
#include "swap/device/cuda/cuda_device.h"
#include "swap/device/cuda/cuda_facts.h"

namespace spillway {
namespace {

// Assumed size of a context, if the driver's library does not report it.
constexpr uint64_t kContextBytes = uint64_t{512} << 20;

// Equal inputs give equal bits: cuBLAS has a workspace for every stream, sums have a fixed order,
// and no reduced formats are used.
void MakeDeterministic() {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // Otherwise every new tensor would be filled first.
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  context.setAllowFP16ReductionCuBLAS(false);
  context.setAllowBF16ReductionCuBLAS(false);
  context.setSDPUseCuDNN(false);
}

// cuBLAS reads it on its first use.
void SetWorkspace() {
  const char* const given = std::getenv("CUBLAS_WORKSPACE_CONFIG");
  const bool known =
      given != nullptr && (std::strcmp(given, ":4096:8") == 0 || std::strcmp(given, ":16:8") == 0);
  if (!known) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/1);
}

// Expandable segments leave few gaps, for which a budget has no room. A user's own setting takes
// precedence.
void LetSegmentsGrow() {
  if (std::getenv("PYTORCH_CUDA_ALLOC_CONF") != nullptr) return;
  if (std::getenv("PYTORCH_ALLOC_CONF") != nullptr) return;
  c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
}

class CudaPlace final : public OpenedPlace {
 public:
  CudaPlace(const ComputeGpu& gpu, std::unique_ptr<CudaDevice> device)
      : device_(std::move(device)), memory_(gpu) {
    const auto index = static_cast<c10::DeviceIndex>(gpu.ordinal);
    place.where = torch::Device(torch::kCUDA, index);
    place.device = device_.get();
    place.stream = c10::cuda::getStreamFromExternal(
                       static_cast<cudaStream_t>(device_->native_compute_stream()), index)
                       .unwrap();
    place.memory = &memory_;
  }
  ~CudaPlace() override { (void)device_->Synchronize(); }

 private:
  std::unique_ptr<CudaDevice> device_;
  CudaTorchMemory memory_;
};

class LinkedSupport final : public CudaSupport {
 public:
  absl::StatusOr<ComputeGpu> Find(DType dtype) override {
    SetWorkspace();
    ASSIGN_OR_RETURN(const CudaFacts facts, ReadCudaFacts());
    ASSIGN_OR_RETURN(const int ordinal, ChooseCudaOrdinal(std::getenv("LOCAL_RANK"),
                                                          static_cast<int>(facts.devices.size())));
    const CudaDeviceFacts& device = facts.devices[ordinal];
    RETURN_IF_ERROR(CheckCudaDevice(device));
    if (dtype == DType::kBFloat16) RETURN_IF_ERROR(CheckCudaBf16(device));
    ComputeGpu gpu;
    gpu.ordinal = ordinal;
    gpu.name = device.name;
    gpu.has_fp8 = device.has_fp8();
    const std::optional<uint64_t> before = GpuFreeBytes(device.pci_address);
    ASSIGN_OR_RETURN(const CudaMemory memory, ReadCudaMemory(ordinal));
    const std::optional<uint64_t> after = GpuFreeBytes(device.pci_address);
    // At the second call the context exists already.
    if (context_bytes_ == 0) {
      context_bytes_ = before && after && *before > *after ? *before - *after : kContextBytes;
    }
    gpu.context_bytes = context_bytes_;
    gpu.total_bytes = memory.total_bytes;
    gpu.free_bytes = std::min(memory.total_bytes, memory.free_bytes + context_bytes_);
    return gpu;
  }

  absl::StatusOr<std::unique_ptr<OpenedPlace>> Open(const ComputeGpu& gpu) override {
    ASSIGN_OR_RETURN(auto device, CudaDevice::Open(gpu.ordinal));
    try {
      MakeDeterministic();
      LetSegmentsGrow();
      c10::cuda::set_device(static_cast<c10::DeviceIndex>(gpu.ordinal));
      at::globalContext().lazyInitDevice(torch::kCUDA);
      PlugInKernels(torch::kCUDA, CudaTensorKernels());
      return std::make_unique<CudaPlace>(gpu, std::move(device));
    } catch (const c10::Error& error) {
      return absl::InternalError(
          absl::StrCat("opening GPU ", gpu.ordinal, ": ", error.what_without_backtrace()));
    }
  }

  absl::StatusOr<std::unique_ptr<Collectives>> Connect(
      const c10::intrusive_ptr<c10d::Store>& store, const ConversationOptions& options,
      const ComputePlace& place, const std::function<bool()>& somebody_failed) override {
    return ConnectNccl(store, options, place, somebody_failed);
  }

 private:
  uint64_t context_bytes_ = 0;
};

}  // namespace

CudaSupport* LinkedCuda() {
  static LinkedSupport support;
  return &support;
}

}  // namespace spillway
