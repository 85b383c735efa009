#include "engine/ranks/rank_socket.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "io/base/clock.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr int kSliceMs = 100;  // between two looks at what may end a wait

RankAddress RankAddressOf(const sockaddr* address, size_t bytes) {
  return {std::string(reinterpret_cast<const char*>(address), bytes)};
}

const sockaddr* SockaddrOf(const RankAddress& address) {
  return reinterpret_cast<const sockaddr*>(address.bytes.data());
}

int FamilyOf(const RankAddress& address) {
  return address.bytes.size() < sizeof(sockaddr_in) ? AF_UNSPEC : SockaddrOf(address)->sa_family;
}

absl::Status SocketError(int error) { return absl::UnavailableError(strerror(error)); }

absl::StatusOr<UniqueFd> BoundSocket(int family, const sockaddr* address, size_t bytes,
                                     bool both_families, int* error) {
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1, off = 0;
  if (fd.valid()) {
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (both_families) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (!fd.valid() || bind(fd.get(), address, static_cast<socklen_t>(bytes)) != 0) {
    *error = errno;
    return SocketError(*error);
  }
  return fd;
}

template <typename Name>
RankAddress EndOf(int fd, const Name& name) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(address);
  if (name(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return {};
  return RankAddressOf(reinterpret_cast<sockaddr*>(&address), bytes);
}

}  // namespace

absl::Status RankWait::Check() const {
  RETURN_IF_ERROR(interrupted());
  if (MonotonicSeconds() < deadline) return absl::OkStatus();
  return absl::DeadlineExceededError("it has not answered in time");
}

std::string RankAddress::host() const {
  char text[NI_MAXHOST];
  if (FamilyOf(*this) == AF_UNSPEC ||
      getnameinfo(SockaddrOf(*this), static_cast<socklen_t>(bytes.size()), text, sizeof(text),
                  nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return text;
}

int RankAddress::port() const {
  if (FamilyOf(*this) == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(bytes.data())->sin_port);
  }
  if (FamilyOf(*this) == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(bytes.data())->sin6_port);
  }
  return 0;
}

bool RankAddress::is_loopback() const {
  const std::string text = host();
  return absl::StartsWith(text, "127.") || text == "::1" || absl::StartsWith(text, "::ffff:127.");
}

RankAddress RankAddress::WithPort(int port) const {
  RankAddress other = *this;
  const uint16_t number = htons(static_cast<uint16_t>(port));
  // Both families have it at the same place.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  if (FamilyOf(other) != AF_UNSPEC) {
    memcpy(&other.bytes[offsetof(sockaddr_in, sin_port)], &number, sizeof(number));
  }
  return other;
}

absl::StatusOr<std::vector<RankAddress>> ResolveRankHost(const std::string& host, int port,
                                                         const RankWait& wait) {
  using Found = absl::StatusOr<std::vector<RankAddress>>;
  std::packaged_task<Found()> look([host, port]() -> Found {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
    if (error != 0) return absl::UnavailableError(gai_strerror(error));
    std::vector<RankAddress> found;
    for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
      found.push_back(RankAddressOf(one->ai_addr, one->ai_addrlen));
    }
    freeaddrinfo(list);
    return found;
  });
  std::future<Found> found = look.get_future();
  std::thread(std::move(look)).detach();
  while (found.wait_for(std::chrono::milliseconds(kSliceMs)) != std::future_status::ready) {
    const absl::Status goes_on = wait.Check();
    if (absl::IsDeadlineExceeded(goes_on)) {
      return absl::UnavailableError("looking the name up takes too long");
    }
    RETURN_IF_ERROR(goes_on);
  }
  return found.get();
}

absl::StatusOr<UniqueFd> BindRankSocket(const RankAddress& address, int* error) {
  return BoundSocket(FamilyOf(address), SockaddrOf(address), address.bytes.size(), false, error);
}

absl::StatusOr<UniqueFd> BindRankSocketToAll(int port, int* error) {
  sockaddr_in6 any = {};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(static_cast<uint16_t>(port));
  auto bound = BoundSocket(AF_INET6, reinterpret_cast<sockaddr*>(&any), sizeof(any), true, error);
  if (bound.ok() || *error == EADDRINUSE) return bound;
  sockaddr_in four = {};  // where the kernel has no IPv6
  four.sin_family = AF_INET;
  four.sin_port = any.sin6_port;
  return BoundSocket(AF_INET, reinterpret_cast<sockaddr*>(&four), sizeof(four), false, error);
}

void PrepareRankSocket(int fd) {
  const int on = 1;
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

RankAddress OwnRankAddress(int fd) { return EndOf(fd, getsockname); }
RankAddress PeerRankAddress(int fd) { return EndOf(fd, getpeername); }

absl::StatusOr<UniqueFd> ConnectRankSocket(const RankAddress& address, const RankWait& wait,
                                           int* error) {
  *error = 0;
  UniqueFd fd(socket(FamilyOf(address), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    *error = errno;
    return SocketError(*error);
  }
  PrepareRankSocket(fd.get());
  if (connect(fd.get(), SockaddrOf(address), static_cast<socklen_t>(address.bytes.size())) == 0) {
    return fd;
  }
  if (errno != EINPROGRESS && errno != EINTR) {
    *error = errno;
    return SocketError(*error);
  }
  RETURN_IF_ERROR(AwaitRankSocket(fd.get(), POLLOUT, wait));
  socklen_t bytes = sizeof(*error);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, error, &bytes) != 0) *error = errno;
  if (*error != 0) return SocketError(*error);
  return fd;
}

absl::Status AwaitRankSocket(int fd, short events, const RankWait& wait) {
  while (true) {
    pollfd watched = {fd, events, 0};
    if (poll(&watched, 1, kSliceMs) > 0) return absl::OkStatus();
    RETURN_IF_ERROR(wait.Check());
  }
}

absl::Status SendToRank(int fd, absl::string_view bytes, const RankWait& wait) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
      RETURN_IF_ERROR(AwaitRankSocket(fd, POLLOUT, wait));
    } else {
      return SocketError(errno);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReceiveFromRank(int fd, size_t bytes, const RankWait& wait) {
  std::string text(bytes, '\0');
  for (size_t at = 0; at < bytes;) {
    const ssize_t got = recv(fd, &text[at], bytes - at, MSG_DONTWAIT);
    if (got > 0) {
      at += static_cast<size_t>(got);
    } else if (got == 0) {
      return absl::UnavailableError("it has closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
      RETURN_IF_ERROR(AwaitRankSocket(fd, POLLIN, wait));
    } else {
      return SocketError(errno);
    }
  }
  return text;
}

absl::StatusOr<RankAddress> AddressOfInterface(const std::string& name) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return ErrnoStatus(errno, "list this machine's network interfaces");
  RankAddress found;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || name != one->ifa_name) continue;
    if (one->ifa_addr->sa_family == AF_INET) {
      found = RankAddressOf(one->ifa_addr, sizeof(sockaddr_in));
      break;
    }
    if (one->ifa_addr->sa_family == AF_INET6 && found.bytes.empty()) {
      found = RankAddressOf(one->ifa_addr, sizeof(sockaddr_in6));
    }
  }
  freeifaddrs(list);
  if (!found.bytes.empty()) return found.WithPort(0);
  return absl::InvalidArgumentError(
      absl::StrCat("GLOO_SOCKET_IFNAME=", name,
                   " is no network interface of this machine with an address: correct it, or "
                   "unset it"));
}

absl::StatusOr<RankAddress> OwnAddressTowards(const RankAddress& to) {
  const UniqueFd fd(socket(FamilyOf(to), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() ||
      connect(fd.get(), SockaddrOf(to), static_cast<socklen_t>(to.bytes.size())) != 0) {
    return SocketError(errno);
  }
  return OwnRankAddress(fd.get()).WithPort(0);
}

absl::Status CheckLoopback(const RankAddress& address) {
  const auto own = OwnAddressTowards(address);
  if (own.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "this machine has no loopback network, over which its ranks meet (", address.host(), ": ",
      own.status().message(), "): bring it up (ip link set lo up)"));
}

}  // namespace spillway
