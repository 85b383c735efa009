// The other ranks of a run, found and talked to: over sockets between CPUs, of which each end has
// proven to know the run's secret (engine/ranks/rank_handshake.h), and through LibTorch's NCCL
// between GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/ranks/collectives.h"
#include "engine/ranks/launch_environment.h"
#include "engine/ranks/shard_grid.h"
#include "engine/torch/cuda_support.h"

namespace spillway {

struct ConnectOptions {
  Launch launch;
  ShardGrid grid;  // of the launch's rank and world
  // For the ranks to come, and then for every exchange.
  double timeout_seconds = 600;
  // What must be the same everywhere (version, config): "name: value" lines.
  std::string identity;
};

class RankConnection {
 public:
  // Waits for all ranks. kUnavailable where some don't come, and which; where the place to meet
  // can't be had; kInvalidArgument where a rank has another identity, and the first difference;
  // kAlreadyExists where this rank is there already; kPermissionDenied where it has another secret
  // than rank 0; kFailedPrecondition where the machine has no loopback network and needs one.
  // kCancelled where a signal came to a rank that waits (StopSignal): on all that wait, which have
  // then received it. Writes to ranks that are gone fail from then on (FailWritesToNobody).
  static absl::StatusOr<std::unique_ptr<RankConnection>> Open(const ConnectOptions& options);
  virtual ~RankConnection() = default;

  virtual RankGroups groups() = 0;

  // Conversations in the memory of this rank's GPU, in place of those of the actions' thread; every
  // rank calls it. They end before what `place` points to.
  struct OnGpu {
    std::unique_ptr<Collectives> group, replicas;
  };
  virtual absl::StatusOr<OnGpu> ConnectGpus(CudaSupport& cuda, const ComputePlace& place) = 0;
  // Sent by this rank in all conversations so far. Any thread.
  virtual uint64_t sent_bytes() const = 0;

  // What ended the run: `own` where this rank is the first to say so, else what the first one
  // said, with its number in front. Other ranks learn it by asking the same. Waits a moment for
  // the others where `own` is only that they are gone. Any thread.
  virtual absl::Status FirstFailure(const absl::Status& own) = 0;

  // Meets the others a last time, so that who holds the meeting place leaves last.
  virtual absl::Status Close() = 0;
};

}  // namespace spillway
