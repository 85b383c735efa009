// The CUDA part of LibTorch behind an interface without CUDA's headers. Only the preset cuda links
// its implementation, engine/torch/cuda/; other builds have none.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/machine/device_choice.h"
#include "engine/numeric/dtype.h"
#include "engine/ranks/socket_ranks.h"
#include "engine/torch/compute_place.h"
#include "torch/csrc/distributed/c10d/Store.hpp"

namespace spillway {

// An open place to compute; the pointers of `place` are valid during its lifetime.
class OpenedPlace {
 public:
  // REQUIRES: its tensors and allocations on its device were freed.
  virtual ~OpenedPlace() = default;
  ComputePlace place;
};

// Compute thread.
class CudaSupport {
 public:
  virtual ~CudaSupport() = default;

  // The GPU of this rank (LOCAL_RANK). Creates the process's context there, to see the free memory.
  // kFailedPrecondition, with the remedy: no driver, one too old, no visible GPU, one older than
  // Turing, one that does not compute in `dtype`. kUnavailable: another process uses it
  // exclusively. kInvalidArgument: no GPU has the number LOCAL_RANK.
  virtual absl::StatusOr<ComputeGpu> Find(DType dtype) = 0;

  // Opens it, and sets deterministic algorithms and exact fp32 in LibTorch for the whole process.
  // Once.
  virtual absl::StatusOr<std::unique_ptr<OpenedPlace>> Open(const ComputeGpu& gpu) = 0;

  // A conversation with other ranks' GPUs, in the memory of the place's (cuda/nccl_ranks.h).
  virtual absl::StatusOr<std::unique_ptr<Collectives>> Connect(
      const c10::intrusive_ptr<c10d::Store>& store, const ConversationOptions& options,
      const ComputePlace& place, const std::function<bool()>& somebody_failed) = 0;
};

// Null if this build has none.
CudaSupport* LinkedCuda();

}  // namespace spillway
