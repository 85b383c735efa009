// A conversation of ranks over sockets between each two of them. Nothing is copied on the way: the
// kernel takes every part from where it is and puts it where it belongs. No lengths are sent: both
// ends of a call know them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/ranks/collectives.h"
#include "io/base/unique_fd.h"

namespace spillway {

struct ConversationOptions {
  std::string name;          // tells conversations of one run apart
  std::vector<int> members;  // ranks of the run, ascending
  int rank = 0;              // this process's, of the run; one of them
  // How long an exchange waits while not a byte comes from, or goes to, a member.
  double timeout_seconds = 600;
};

// `sockets`: connected with each member, in their order; this rank's own is invalid. An error of
// one call is that of every later one. kUnavailable: a rank is gone, and which; kDeadlineExceeded:
// one has not answered (HasNotAnswered).
std::unique_ptr<Collectives> MakeSocketRanks(const ConversationOptions& options,
                                             std::vector<UniqueFd> sockets);

}  // namespace spillway
