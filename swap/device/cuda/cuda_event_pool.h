// CUDA events, made once and used again: making one costs more than recording it.
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "io/base/mutex.h"

struct CUevent_st;

namespace spillway {

// Any thread. Holds as many events as were ever taken at a time: one for each buffer that a plan
// has under way.
//
// An event may be given back while streams still wait for it, and be recorded anew: a wait is for
// what was recorded when it was put into its stream.
class CudaEventPool {
 public:
  // `flags`: cudaEventCreateWithFlags.
  explicit CudaEventPool(unsigned flags) : flags_(flags) {}
  // REQUIRES: all have been given back.
  ~CudaEventPool();
  CudaEventPool(const CudaEventPool&) = delete;
  CudaEventPool& operator=(const CudaEventPool&) = delete;

  // On the thread's current device. The error of cudaEventCreateWithFlags.
  absl::StatusOr<CUevent_st*> Take();
  // Calls nothing of CUDA's.
  void Give(CUevent_st* event);

 private:
  const unsigned flags_;
  Mutex mutex_;
  std::vector<CUevent_st*> idle_ ABSL_GUARDED_BY(mutex_);
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace spillway
