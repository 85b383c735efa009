// Sockets between ranks. All are non-blocking: a wait checks ten times a second whether it must
// end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/base/unique_fd.h"

namespace spillway {

// Limits of a wait: a deadline in MonotonicSeconds, and a callback that ends it earlier by a status
// that is not OK.
struct RankWait {
  double deadline = 0;
  std::function<absl::Status()> interrupted = [] { return absl::OkStatus(); };

  // OK while neither limit is reached; kDeadlineExceeded after the deadline.
  absl::Status Check() const;
};

// An address and a port of this or another machine, in the kernel's form.
struct RankAddress {
  std::string bytes;  // a sockaddr

  // "10.0.0.1" and 29500; "" and 0 if it is of neither IPv4 nor IPv6.
  std::string host() const;
  int port() const;
  bool is_loopback() const;
  RankAddress WithPort(int port) const;
};

// The addresses of a name, or of a numeric address. The lookup runs on a thread of its own, which
// is abandoned if `wait` ends first. kUnavailable with the reason: there is none, or none was found
// before the deadline.
absl::StatusOr<std::vector<RankAddress>> ResolveRankHost(const std::string& host, int port,
                                                         const RankWait& wait);

// Binds a socket to the address. kUnavailable with the kernel's message; `*error` gets its errno.
absl::StatusOr<UniqueFd> BindRankSocket(const RankAddress& address, int* error);
// Binds a socket to `port` of all addresses of this machine; errors likewise.
absl::StatusOr<UniqueFd> BindRankSocketToAll(int port, int* error);

// Makes a socket non-blocking and disables the delay of short messages.
void PrepareRankSocket(int fd);

// Addresses of this end and of the other end.
RankAddress OwnRankAddress(int fd);
RankAddress PeerRankAddress(int fd);

// Connects to the address. kUnavailable: it was refused, or is impossible; `*error` gets the errno.
absl::StatusOr<UniqueFd> ConnectRankSocket(const RankAddress& address, const RankWait& wait,
                                           int* error);

// Sends all of `bytes`. kUnavailable if the other end is gone.
absl::Status SendToRank(int fd, absl::string_view bytes, const RankWait& wait);
absl::StatusOr<std::string> ReceiveFromRank(int fd, size_t bytes, const RankWait& wait);

// Waits until poll() would return `events` of the descriptor.
absl::Status AwaitRankSocket(int fd, short events, const RankWait& wait);

// The address of the interface `name` (eth0), IPv4 first. kInvalidArgument: it has none.
absl::StatusOr<RankAddress> AddressOfInterface(const std::string& name);
// The address of this machine by which it reaches `to`. No packet is sent.
absl::StatusOr<RankAddress> OwnAddressTowards(const RankAddress& to);
// kFailedPrecondition if no packet can reach this loopback address: a container or network
// namespace whose loopback interface is down.
absl::Status CheckLoopback(const RankAddress& address);

}  // namespace spillway
