// Connects a rank with the other ranks of a run: over sockets between CPUs, whose ends have proven
// to each other that they know the run's secret (engine/ranks/rank_handshake.h), and through
// LibTorch's NCCL between GPUs.
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
  // Limit for the ranks to come, and for every exchange.
  double timeout_seconds = 600;
  // Values that must be equal on all ranks (version, config): "name: value" lines.
  std::string identity;
};

class RankConnection {
 public:
  // Waits for all ranks. kUnavailable if some do not come, naming them, or if the meeting place is
  // not available; kInvalidArgument with the first difference if a rank has another identity;
  // kAlreadyExists if this rank is connected already; kPermissionDenied if its secret is not rank
  // 0's; kFailedPrecondition if the machine needs a loopback network and has none. kCancelled if a
  // signal came to a rank that waits (StopSignal): on all waiting ranks, which then have received
  // it. From then on writes to ranks that are gone fail (FailWritesToNobody).
  static absl::StatusOr<std::unique_ptr<RankConnection>> Open(const ConnectOptions& options);
  virtual ~RankConnection() = default;

  virtual RankGroups groups() = 0;

  // Replaces the actions' thread's conversations by those in the memory of this rank's GPU; every
  // rank calls it. They end before the objects of `place`.
  struct OnGpu {
    std::unique_ptr<Collectives> group, replicas;
  };
  virtual absl::StatusOr<OnGpu> ConnectGpus(CudaSupport& cuda, const ComputePlace& place) = 0;
  // Bytes sent by this rank in all conversations so far. Any thread.
  virtual uint64_t sent_bytes() const = 0;

  // The failure that ended the run: `own` if this rank is the first to report one, else the first
  // rank's, with its number in front. Every rank that calls it gets the same. Waits a moment for
  // the others if `own` says only that they are gone. Any thread.
  virtual absl::Status FirstFailure(const absl::Status& own) = 0;

  // Meets the others a last time, so that the rank with the meeting place leaves last.
  virtual absl::Status Close() = 0;
};

}  // namespace spillway
