// A conversation of ranks over sockets between each two of them. The kernel reads and writes the
// caller's memory directly, without copies. No lengths are sent: both ends of a call know them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/ranks/collectives.h"
#include "io/base/unique_fd.h"

namespace spillway {

struct ConversationOptions {
  std::string name;          // distinguishes conversations of one run
  std::vector<int> members;  // ranks of the run, ascending
  int rank = 0;              // this process's rank in the run; one of `members`
  // Longest time in which no byte comes from, or goes to, a member.
  double timeout_seconds = 600;
};

// `sockets`: one connection per member, in their order; this rank's own is invalid. After an error
// every later call returns it. kUnavailable: a rank is gone, and which; kDeadlineExceeded: one has
// not answered (HasNotAnswered).
std::unique_ptr<Collectives> MakeSocketRanks(const ConversationOptions& options,
                                             std::vector<UniqueFd> sockets);

}  // namespace spillway
