// Where rank 0 listens, told in the store that torchrun's agent has for its ranks. That store is
// LibTorch's, and whoever reaches its port can read and write it: a wrong address in it keeps ranks
// from meeting, but does not let a program without the secret take part (rank_handshake.h).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/ranks/launch_environment.h"
#include "engine/ranks/rank_socket.h"

namespace spillway {

// Where rank 0 listens. An empty host is the machine of the launch's MASTER_ADDR.
struct RankZeroPlace {
  std::string host;
  int port = 0;
};

// kAlreadyExists: another process has told its own for this attempt of the job. kUnavailable: the
// agent's store was not reached before the deadline. What `wait` is interrupted with. LibTorch's
// client looks at neither: it runs on a thread of its own, which is left behind then.
absl::Status TellRankZeroPlace(const Launch& launch, const RankZeroPlace& place,
                               const RankWait& wait);
// Waits until rank 0 has told it.
absl::StatusOr<RankZeroPlace> AskRankZeroPlace(const Launch& launch, const RankWait& wait);

}  // namespace spillway
