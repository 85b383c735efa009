// Sockets between ranks, all of them non-blocking: what waits on one also looks for a reason to
// stop, ten times a second.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/base/unique_fd.h"

namespace spillway {

// Until when to wait, by MonotonicSeconds, and what ends the wait before: a status that is not OK.
struct RankWait {
  double deadline = 0;
  std::function<absl::Status()> interrupted = [] { return absl::OkStatus(); };

  // OK while neither has come; kDeadlineExceeded behind the deadline.
  absl::Status Check() const;
};

// An address and a port of this or another machine, as the kernel has it.
struct RankAddress {
  std::string bytes;  // a sockaddr

  // "10.0.0.1" and 29500; "" and 0 where it is of neither IPv4 nor IPv6.
  std::string host() const;
  int port() const;
  bool is_loopback() const;
  RankAddress WithPort(int port) const;
};

// The addresses of a name, or of an address in numbers. The lookup runs on a thread of its own,
// which is left behind where `wait` ends first. kUnavailable: there is none, or none was found
// before the deadline, and why.
absl::StatusOr<std::vector<RankAddress>> ResolveRankHost(const std::string& host, int port,
                                                         const RankWait& wait);

// A socket bound to it. The status is kUnavailable, whose message is what the kernel said; in
// `*error` its errno.
absl::StatusOr<UniqueFd> BindRankSocket(const RankAddress& address, int* error);
// The same to `port` of all addresses of this machine.
absl::StatusOr<UniqueFd> BindRankSocketToAll(int port, int* error);

// Makes a socket non-blocking, and one that sends short messages at once.
void PrepareRankSocket(int fd);

// This end's address and the other end's.
RankAddress OwnRankAddress(int fd);
RankAddress PeerRankAddress(int fd);

// A connection there. kUnavailable: it was refused, or cannot be; in `*error` the errno.
absl::StatusOr<UniqueFd> ConnectRankSocket(const RankAddress& address, const RankWait& wait,
                                           int* error);

// All of it. kUnavailable where the other end is gone.
absl::Status SendToRank(int fd, absl::string_view bytes, const RankWait& wait);
absl::StatusOr<std::string> ReceiveFromRank(int fd, size_t bytes, const RankWait& wait);

// Waits until poll() would return `events` of the descriptor.
absl::Status AwaitRankSocket(int fd, short events, const RankWait& wait);

// The address of the interface in `name` (eth0), IPv4 first. kInvalidArgument: it has none.
absl::StatusOr<RankAddress> AddressOfInterface(const std::string& name);
// The address of this machine by which it reaches `to`. No packet is sent.
absl::StatusOr<RankAddress> OwnAddressTowards(const RankAddress& to);
// kFailedPrecondition where no packet can go to this address of the loopback network: a container
// or a namespace in which nobody has brought it up.
absl::Status CheckLoopback(const RankAddress& address);

}  // namespace spillway
