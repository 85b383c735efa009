#include "engine/ranks/socket_ranks.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "engine/ranks/rank_socket.h"
#include "io/base/check.h"
#include "io/base/clock.h"
#include "io/base/mutex.h"

namespace spillway {
namespace {

// Bytes to or from one member before the next member is served.
constexpr uint64_t kTurnBytes = 1 << 20;

class SocketRanks : public Collectives {
 public:
  SocketRanks(const ConversationOptions& options, std::vector<UniqueFd> sockets)
      : options_(options),
        rank_(static_cast<int>(
            std::find(options.members.begin(), options.members.end(), options.rank) -
            options.members.begin())),
        sockets_(std::move(sockets)),
        abort_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    SPILLWAY_CHECK(sockets_.size() == options.members.size());
    for (const UniqueFd& socket : sockets_) {
      if (socket.valid()) PrepareRankSocket(socket.get());
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(options_.members.size()); }
  uint64_t sent_bytes() const override { return sent_bytes_; }

  absl::Status Exchange(absl::Span<const char* const> send, absl::Span<char* const> receive,
                        uint64_t bytes) override {
    if (bytes == 0) return absl::OkStatus();
    std::vector<Way> ways;
    // Every rank begins with a different one, so that not all send to the same at once.
    for (int i = 1; i < size(); ++i) {
      const int peer = (rank_ + i) % size();
      ways.push_back({peer, send[peer], bytes, receive[peer], bytes});
    }
    if (receive[rank_] != send[rank_]) memcpy(receive[rank_], send[rank_], bytes);
    return Pass(std::move(ways));
  }

  absl::Status Send(int to, const char* data, uint64_t bytes) override {
    return Pass({{to, data, bytes, nullptr, 0}});
  }
  absl::Status Receive(int from, char* data, uint64_t bytes) override {
    return Pass({{from, nullptr, 0, data, bytes}});
  }

  void Abort() override {
    aborted_ = true;
    const uint64_t one = 1;
    (void)!write(abort_.get(), &one, sizeof(one));
  }

 private:
  // The bytes that remain between this rank and one member.
  struct Way {
    int peer = 0;
    const char* out = nullptr;
    uint64_t out_bytes = 0;
    char* in = nullptr;
    uint64_t in_bytes = 0;
  };

  absl::Status Pass(std::vector<Way> ways) {
    MutexLock lock(mutex_);
    if (aborted_) return absl::CancelledError("aborted");
    if (broken_.ok()) broken_ = PassAll(ways);
    return aborted_ ? absl::CancelledError("aborted") : broken_;
  }

  // Serves all members at once.
  absl::Status PassAll(std::vector<Way>& ways) {
    double moved_at = MonotonicSeconds();
    while (true) {
      uint64_t moved = 0;
      for (Way& way : ways) {
        const absl::Status status = Move(way, &moved);
        if (!status.ok()) return status;
      }
      std::erase_if(ways, [](const Way& way) { return way.out_bytes + way.in_bytes == 0; });
      if (ways.empty()) return absl::OkStatus();
      if (moved > 0) moved_at = MonotonicSeconds();
      if (const absl::Status status = Wait(ways, moved_at); !status.ok()) return status;
    }
  }

  // Moves as much as possible without waiting.
  absl::Status Move(Way& way, uint64_t* moved) {
    const int fd = sockets_[way.peer].get();
    if (way.out_bytes > 0) {
      const ssize_t sent =
          send(fd, way.out, std::min(way.out_bytes, kTurnBytes), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && !IsPatient(errno)) return Gone(way.peer, strerror(errno));
      if (sent > 0) {
        way.out += sent;
        way.out_bytes -= static_cast<uint64_t>(sent);
        sent_bytes_ += static_cast<uint64_t>(sent);
        *moved += static_cast<uint64_t>(sent);
      }
    }
    if (way.in_bytes > 0) {
      const ssize_t got = recv(fd, way.in, std::min(way.in_bytes, kTurnBytes), MSG_DONTWAIT);
      if (got == 0) return Gone(way.peer, "it has closed the connection");
      if (got < 0 && !IsPatient(errno)) return Gone(way.peer, strerror(errno));
      if (got > 0) {
        way.in += got;
        way.in_bytes -= static_cast<uint64_t>(got);
        *moved += static_cast<uint64_t>(got);
      }
    }
    return absl::OkStatus();
  }

  // Waits until something can be moved.
  absl::Status Wait(const std::vector<Way>& ways, double moved_at) {
    std::vector<pollfd> watched = {{abort_.get(), POLLIN, 0}};
    for (const Way& way : ways) {
      const int events = (way.out_bytes > 0 ? POLLOUT : 0) | (way.in_bytes > 0 ? POLLIN : 0);
      watched.push_back({sockets_[way.peer].get(), static_cast<short>(events), 0});
    }
    const double left = moved_at + options_.timeout_seconds - MonotonicSeconds();
    const int ready = poll(watched.data(), watched.size(),
                           static_cast<int>(std::clamp(left * 1000 + 1, 0.0, 60e3)));
    if (aborted_) return absl::CancelledError("aborted");
    if (ready != 0 || left > 0) return absl::OkStatus();
    // A member that has not received may itself wait for another, so one that has not sent is named
    // first.
    const auto silent =
        std::find_if(ways.begin(), ways.end(), [](const Way& way) { return way.in_bytes > 0; });
    return HasNotAnswered(options_.members[silent != ways.end() ? silent->peer : ways.front().peer],
                          options_.timeout_seconds);
  }

  static bool IsPatient(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
  }

  absl::Status Gone(int peer, absl::string_view why) const {
    return absl::UnavailableError(
        absl::StrCat("rank ", options_.members[peer], " is gone (", why, ")"));
  }

  const ConversationOptions options_;
  const int rank_;  // index among the members
  const std::vector<UniqueFd> sockets_;
  const UniqueFd abort_;
  std::atomic<bool> aborted_{false};
  std::atomic<uint64_t> sent_bytes_{0};
  Mutex mutex_;  // held for a whole call
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Collectives> MakeSocketRanks(const ConversationOptions& options,
                                             std::vector<UniqueFd> sockets) {
  return std::make_unique<SocketRanks>(options, std::move(sockets));
}

}  // namespace spillway
