#include "swap/device/cuda/cuda_event_pool.h"

#include <cuda_runtime_api.h>

#include "io/base/check.h"
#include "swap/device/cuda/cuda_status.h"

namespace spillway {

CudaEventPool::~CudaEventPool() {
  MutexLock lock(mutex_);
  SPILLWAY_CHECK(taken_ == 0);
  // Calls on a broken device fail; there is nothing to do about that here.
  for (CUevent_st* event : idle_) (void)cudaEventDestroy(event);
}

absl::StatusOr<CUevent_st*> CudaEventPool::Take() {
  {
    MutexLock lock(mutex_);
    ++taken_;
    if (!idle_.empty()) {
      CUevent_st* event = idle_.back();
      idle_.pop_back();
      return event;
    }
  }
  CUevent_st* event = nullptr;
  if (const cudaError_t error = cudaEventCreateWithFlags(&event, flags_); error != cudaSuccess) {
    MutexLock lock(mutex_);
    --taken_;
    return CudaStatus(error, "cudaEventCreateWithFlags");
  }
  return event;
}

void CudaEventPool::Give(CUevent_st* event) {
  MutexLock lock(mutex_);
  SPILLWAY_CHECK(taken_ > 0);
  --taken_;
  idle_.push_back(event);
}

}  // namespace spillway
