#include "engine/torch/cuda/cuda_torch_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"

namespace spillway {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

// Size of the last refusal, on any GPU: observers cannot be removed.
std::atomic<uint64_t> refused_bytes{0};

uint64_t FreeBytes() {
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
  return free;
}

// The statistic over all sizes.
const c10::CachingAllocator::Stat& Sum(const c10::CachingAllocator::StatArray& stats) {
  return stats[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
}

// LibTorch throws if CUDA fails. A failure here also affects the next computation, which reports it
// with more details.
template <typename Function>
void Quietly(const char* what, Function function) {
  try {
    function();
  } catch (const c10::Error& error) {
    LogWarning(absl::StrCat(what, ": ", error.what_without_backtrace()));
  }
}

uint64_t Positive(int64_t bytes) { return bytes > 0 ? static_cast<uint64_t>(bytes) : 0; }

}  // namespace

CudaTorchMemory::CudaTorchMemory(const ComputeGpu& gpu)
    : gpu_(gpu), free_at_start_(FreeBytes()), overhead_(gpu.context_bytes) {
  static const bool observed = [] {
    caching::attachOutOfMemoryObserver(
        [](int64_t, size_t bytes, size_t, size_t) { refused_bytes = bytes; });
    return true;
  }();
  (void)observed;
}

CudaTorchMemory::~CudaTorchMemory() { Trim(); }

uint64_t CudaTorchMemory::Limit() const {
  if (budget_ == nullptr) return gpu_.total_bytes;
  const uint64_t others = budget_->used_bytes() + overhead_;
  return budget_->limit_bytes() - std::min(budget_->limit_bytes(), others);
}

void CudaTorchMemory::SetBudget(MemoryBudget* budget) {
  budget_ = budget;
  // Cached memory counts too, and the new limit may be lower.
  Trim();
  const double fraction = static_cast<double>(Limit()) / static_cast<double>(gpu_.total_bytes);
  Quietly("bounding LibTorch's memory on the GPU",
          [&] { caching::setMemoryFraction(std::min(1.0, fraction), gpu_.ordinal); });
}

uint64_t CudaTorchMemory::live_bytes() const {
  return Positive(Sum(caching::getDeviceStats(gpu_.ordinal).allocated_bytes).current);
}

uint64_t CudaTorchMemory::peak_live_bytes() const {
  return Positive(Sum(caching::getDeviceStats(gpu_.ordinal).allocated_bytes).peak);
}

void CudaTorchMemory::ResetPeak() { caching::resetPeakStats(gpu_.ordinal); }

uint64_t CudaTorchMemory::held_bytes() const {
  return Positive(Sum(caching::getDeviceStats(gpu_.ordinal).reserved_bytes).current);
}

void CudaTorchMemory::Trim() {
  Quietly("giving back memory of the GPU", [] { caching::emptyCache(); });
}

uint64_t CudaTorchMemory::overhead_bytes() {
  // Kernels, handles and workspaces have been loaded, and nothing else of ours remains: the memory
  // that is gone is theirs, or other processes'.
  constexpr uint64_t kMost = uint64_t{2} << 30;
  const uint64_t free_now = FreeBytes();
  const uint64_t grown = free_at_start_ - std::min(free_at_start_, free_now);
  overhead_ = gpu_.context_bytes + std::min(grown, kMost);
  return overhead_;
}

std::string CudaTorchMemory::RefusalText(const std::string& said) const {
  if (budget_ == nullptr) return said;
  return absl::StrCat(
      "device memory: ", FormatBytes(refused_bytes), " more are needed, tensors have ",
      FormatBytes(live_bytes()), " of the ", FormatBytes(Limit()), " that --device-memory ",
      FormatBytes(budget_->limit_bytes()),
      " leaves them (weights and gradients on the device take ", FormatBytes(budget_->used_bytes()),
      ", CUDA itself ", FormatBytes(overhead_), "); raise --device-memory",
      FreeBytes() < refused_bytes ? ", or end what else runs on the GPU" : "");
}

}  // namespace spillway
