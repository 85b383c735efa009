#include "engine/ranks/rank_listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Connections that the kernel queues until they are accepted, without a descriptor.
constexpr int kBacklog = 1024;
// Interval at which the age of strangers is checked.
constexpr int kTickMs = 200;
// Time until a connection for which there was no descriptor is tried again.
constexpr double kNoDescriptorSeconds = 0.2;
// Connections accepted in one turn, before the present ones are served again.
constexpr int kMostAtOnce = 64;
// Largest number of conversations between two ranks.
constexpr size_t kMostConversations = 8;

// Enables keep-alive: a rank whose machine is gone is noticed, so that its replacement finds the
// number free.
void NoticeLostPeer(int fd) {
  const int on = 1, idle = 10, interval = 5, probes = 3;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

}  // namespace

struct RankListener::Guest {
  UniqueFd fd;
  RankGuest talk;
  std::string out;  // sent before more is read
  double since;
};

absl::StatusOr<std::unique_ptr<RankListener>> RankListener::Open(const RankListenerOptions& options,
                                                                 UniqueFd socket) {
  PrepareRankSocket(socket.get());
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid() || listen(socket.get(), kBacklog) != 0) {
    return absl::UnavailableError(ErrnoStatus(errno, "listen for other ranks").message());
  }
  std::unique_ptr<RankListener> listener(new RankListener(options, std::move(socket)));
  listener->wake_ = std::move(wake);
  listener->thread_ = std::thread([self = listener.get()] { self->Serve(); });
  return listener;
}

RankListener::RankListener(const RankListenerOptions& options, UniqueFd socket)
    : options_(options), socket_(std::move(socket)), present_(options.identity.world) {}

RankListener::~RankListener() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
  thread_.join();
}

absl::StatusOr<UniqueFd> RankListener::Take(const std::string& conversation, int rank,
                                            const RankWait& wait) {
  MutexLock lock(mutex_);
  while (true) {
    const auto found = pairs_.find({conversation, rank});
    if (found != pairs_.end() && found->second.valid()) return std::move(found->second);
    const auto next = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    changed_.WaitUntil(mutex_, next);
    // The callback may ask rank 0, which this listener's thread must go on serving.
    mutex_.Unlock();
    const absl::Status goes_on = wait.Check();
    mutex_.Lock();
    RETURN_IF_ERROR(goes_on);
  }
}

bool RankListener::IsPresent(int rank) {
  MutexLock lock(mutex_);
  return present_[rank];
}

void RankListener::Begin() {
  MutexLock lock(mutex_);
  begun_ = true;
}

void RankListener::EndPairs() {
  MutexLock lock(mutex_);
  pairs_ended_ = true;
}

Admission RankListener::Admit(const RankCaller& caller) {
  MutexLock lock(mutex_);
  if (caller.conversation == kStoreConversation) {
    if (options_.store == nullptr) return Admission::kUnexpected;
    if (caller.rank == options_.rank || present_[caller.rank]) return Admission::kThereAlready;
    if (begun_) return Admission::kTooLate;
    present_[caller.rank] = true;
    return Admission::kAdmitted;
  }
  if (caller.rank <= options_.rank) return Admission::kUnexpected;
  if (pairs_ended_) return Admission::kTooLate;
  if (pairs_.size() >= kMostConversations * present_.size()) return Admission::kUnexpected;
  const bool added = pairs_.try_emplace({caller.conversation, caller.rank}).second;
  return added ? Admission::kAdmitted : Admission::kThereAlready;
}

bool RankListener::Accept() {
  for (int i = 0; i < kMostAtOnce; ++i) {
    UniqueFd fd(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
    }
    PrepareRankSocket(fd.get());
    guests_.push_back(std::make_unique<Guest>(
        Guest{std::move(fd),
              RankGuest(options_.identity, options_.store,
                        [this](const RankCaller& caller) { return Admit(caller); }),
              "", MonotonicSeconds()}));
    DropGuests(MonotonicSeconds());
  }
  return true;
}

void RankListener::DropGuests(double now) {
  const auto is_stranger = [](const auto& guest) { return !guest->talk.admitted(); };
  auto strangers = std::count_if(guests_.begin(), guests_.end(), is_stranger);
  std::erase_if(guests_, [&](const auto& guest) {
    if (!is_stranger(guest)) return false;
    const bool goes =
        strangers > options_.most_strangers || now - guest->since > options_.stranger_seconds;
    strangers -= goes;
    return goes;
  });
}

bool RankListener::Converse(Guest& guest) {
  char buffer[4096];
  while (true) {
    while (!guest.out.empty()) {
      const ssize_t sent =
          send(guest.fd.get(), guest.out.data(), guest.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
      guest.out.erase(0, static_cast<size_t>(sent));
    }
    if (guest.talk.was_refused()) {
      if (!warned_ && guest.talk.caller().conversation.empty()) {
        warned_ = true;
        LogWarning(absl::StrCat(
            "a connection from ", PeerRankAddress(guest.fd.get()).host(),
            " was refused: it is of another job, or does not have this run's secret (ranks that "
            "are missing need the same SPILLWAY_SECRET as rank ",
            options_.rank, ")"));
      }
      return false;
    }
    if (guest.talk.is_pair()) {
      KeepPair(guest);
      return false;
    }
    const ssize_t got =
        recv(guest.fd.get(), buffer, std::min(sizeof(buffer), guest.talk.wanted()), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    if (got == 0) return false;
    const bool was_admitted = guest.talk.admitted();
    if (!guest.talk.Take({buffer, static_cast<size_t>(got)}, &guest.out).ok()) return false;
    if (!was_admitted && guest.talk.admitted()) NoticeLostPeer(guest.fd.get());
  }
}

void RankListener::KeepPair(Guest& guest) {
  MutexLock lock(mutex_);
  pairs_[{guest.talk.caller().conversation, guest.talk.caller().rank}] = std::move(guest.fd);
  changed_.NotifyAll();
}

void RankListener::Serve() {
  double accepts_from = 0;
  while (true) {
    {
      MutexLock lock(mutex_);
      if (stopped_) return;
    }
    const bool accepts = MonotonicSeconds() >= accepts_from;
    std::vector<pollfd> watched = {{wake_.get(), POLLIN, 0},
                                   {accepts ? socket_.get() : -1, POLLIN, 0}};
    for (const auto& guest : guests_) {
      watched.push_back(
          {guest->fd.get(), static_cast<short>(guest->out.empty() ? POLLIN : POLLOUT), 0});
    }
    if (poll(watched.data(), watched.size(), kTickMs) <= 0) {
      for (pollfd& one : watched) one.revents = 0;
    }
    for (size_t i = 2; i < watched.size(); ++i) {
      Guest& guest = *guests_[i - 2];
      if (watched[i].revents == 0 || Converse(guest)) continue;
      if (guest.talk.admitted() && guest.talk.caller().conversation == kStoreConversation) {
        if (options_.left) options_.left(guest.talk.caller().rank);
        MutexLock lock(mutex_);
        present_[guest.talk.caller().rank] = false;
      }
      guests_[i - 2].reset();
    }
    std::erase(guests_, nullptr);
    DropGuests(MonotonicSeconds());
    if (watched[1].revents != 0 && !Accept()) {
      accepts_from = MonotonicSeconds() + kNoDescriptorSeconds;
    }
  }
}

}  // namespace spillway
