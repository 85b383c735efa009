// The CUDA half of LibTorch behind an interface without CUDA's headers. Its implementation,
// engine/torch/cuda/, is linked by the preset cuda alone; every other build answers that it has
// none.
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

// A place to compute, opened; what `place` points to lives as long.
class OpenedPlace {
 public:
  // REQUIRES: its tensors and what was allocated of its device are gone.
  virtual ~OpenedPlace() = default;
  ComputePlace place;
};

// Compute thread.
class CudaSupport {
 public:
  virtual ~CudaSupport() = default;

  // The GPU of this rank (LOCAL_RANK). Makes the process's context there, to see what is free.
  // kFailedPrecondition, with the remedy: no driver, one too old, no visible GPU, one older than
  // Turing, one that does not compute in `dtype`. kUnavailable: another process has it to
  // itself. kInvalidArgument: LOCAL_RANK is no GPU's.
  virtual absl::StatusOr<ComputeGpu> Find(DType dtype) = 0;

  // Opens it, with deterministic algorithms and fp32 that is fp32: settings of LibTorch's for
  // the whole process. Once.
  virtual absl::StatusOr<std::unique_ptr<OpenedPlace>> Open(const ComputeGpu& gpu) = 0;

  // A conversation with other ranks' GPUs, in the memory of the place's (cuda/nccl_ranks.h).
  virtual absl::StatusOr<std::unique_ptr<Collectives>> Connect(
      const c10::intrusive_ptr<c10d::Store>& store, const ConversationOptions& options,
      const ComputePlace& place, const std::function<bool()>& somebody_failed) = 0;
};

// Null where this build has none.
CudaSupport* LinkedCuda();

}  // namespace spillway
