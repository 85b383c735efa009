// Publishes rank 0's address in the store of torchrun's agent. That store is LibTorch's, and any
// program that reaches its port can read and write it: a wrong address there prevents ranks from
// meeting, but does not admit a program without the secret (rank_handshake.h).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/ranks/launch_environment.h"
#include "engine/ranks/rank_socket.h"

namespace spillway {

// The address of rank 0's listener. An empty host is the machine of the launch's MASTER_ADDR.
struct RankZeroPlace {
  std::string host;
  int port = 0;
};

// kAlreadyExists: another process has published its address for this attempt of the job.
// kUnavailable: the agent's store was not reached before the deadline. Also the status that
// interrupts `wait`. LibTorch's client honours neither, so it runs on a thread of its own, which is
// then abandoned.
absl::Status TellRankZeroPlace(const Launch& launch, const RankZeroPlace& place,
                               const RankWait& wait);
// Waits until rank 0 has published its address.
absl::StatusOr<RankZeroPlace> AskRankZeroPlace(const Launch& launch, const RankWait& wait);

}  // namespace spillway
