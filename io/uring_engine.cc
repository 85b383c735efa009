#include "io/uring_engine.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "io/check.h"
#include "io/log.h"
#include "io/status.h"
#include "io/uring_refusal.h"

namespace spillway {
namespace {

// From the newest kernel to the oldest: 6.1, 6.0, 5.19, 5.6. A disabled ring is
// wanted only where the ring is tied to a thread.
constexpr unsigned kSetupFlags[] = {
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
        IORING_SETUP_R_DISABLED,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_R_DISABLED,
    IORING_SETUP_COOP_TASKRUN,
    0,
};

// Beside the blocks: the poll for Wake, and the timeout that liburing submits
// by itself on kernels before 5.11.
constexpr uint32_t kOwnEntries = 2;

// A filter may let a ring be made and refuse its use: one no-op there and back
// shows that it works.
int TryRing() {
  io_uring ring;
  if (const int error = -io_uring_queue_init(2, &ring, 0); error != 0) return error;
  int error = 0;
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr || !io_uring_opcode_supported(probe, IORING_OP_READ) ||
      !io_uring_opcode_supported(probe, IORING_OP_WRITE)) {
    // Before 5.6 there is neither the probe nor the plain read and write. With
    // a filter on io_uring_register there is no telling, and no enabling either.
    error = ENOSYS;
  }
  io_uring_free_probe(probe);
  if (error == 0) {
    io_uring_prep_nop(io_uring_get_sqe(&ring));
    const int submitted = RetryOnSignal([&] {
      const int result = io_uring_submit_and_wait(&ring, 1);
      if (result < 0) errno = -result;
      return result;
    });
    if (submitted < 0) error = -submitted;
  }
  io_uring_queue_exit(&ring);
  return error;
}

}  // namespace

UringEngine::UringEngine(const IoEngineOptions& options, UniqueFd wake_fd)
    : BlockEngine(options), wake_fd_(std::move(wake_fd)) {}

absl::StatusOr<std::unique_ptr<UringEngine>> UringEngine::Create(const IoEngineOptions& options) {
  if (const int error = TryRing(); error != 0) return UringRefusedHere(error);
  UniqueFd wake_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_fd.valid()) return ErrnoStatus(errno, "create an eventfd");
  std::unique_ptr<UringEngine> engine(new UringEngine(options, std::move(wake_fd)));
  RETURN_IF_ERROR(engine->CreateRing(options.depth + kOwnEntries));
  return engine;
}

absl::Status UringEngine::CreateRing(uint32_t entries) {
  int error = 0;
  for (const unsigned flags : kSetupFlags) {
    error = -io_uring_queue_init(entries, &ring_, flags);
    if (error == 0) {
      setup_flags_ = flags;
      ring_exists_ = true;
      return absl::OkStatus();
    }
    if (error != EINVAL) break;
  }
  return UringRefusedHere(error);
}

UringEngine::~UringEngine() {
  if (!ring_exists_) return;
  // Closing a ring does not end its transfers, and their memory may be gone
  // once we return. Only the owner may wait for them.
  SPILLWAY_CHECK(queue().in_flight() == 0 || on_owner_thread());
  while (queue().in_flight() > 0) Exchange(absl::Hours(1));
  io_uring_queue_exit(&ring_);
}

std::string UringEngine::flags() const {
  std::vector<absl::string_view> names;
  if ((setup_flags_ & IORING_SETUP_DEFER_TASKRUN) != 0) names.push_back("DEFER_TASKRUN");
  if ((setup_flags_ & IORING_SETUP_SINGLE_ISSUER) != 0) names.push_back("SINGLE_ISSUER");
  if ((setup_flags_ & IORING_SETUP_COOP_TASKRUN) != 0) names.push_back("COOP_TASKRUN");
  return names.empty() ? "no set-up flags" : absl::StrJoin(names, ", ");
}

// The ring's descriptor is not registered: that belongs to a thread's own
// table, which another thread's destructor would damage, and saves nothing
// that shows beside a transfer of a MiB.
void UringEngine::Enable() {
  if (enabled_) return;
  enabled_ = true;
  if ((setup_flags_ & IORING_SETUP_R_DISABLED) == 0) return;
  if (const int error = -io_uring_enable_rings(&ring_); error != 0) {
    enable_error_ = error;
    LogError(ErrnoStatus(error, "enable the io_uring ring").message());
  }
}

void UringEngine::Prepare(io_uring_sqe* sqe, const IoBlock& block) {
  const auto size_bytes = static_cast<unsigned>(block.size_bytes);
  if (block.op == IoOp::kRead) {
    io_uring_prep_read(sqe, block.fd, block.data, size_bytes, block.offset_bytes);
  } else {
    io_uring_prep_write(sqe, block.fd, block.data, size_bytes, block.offset_bytes);
  }
}

io_uring_sqe* UringEngine::NextSqe() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  SPILLWAY_CHECK(sqe != nullptr);  // the ring has an entry for each block in flight
  return sqe;
}

void UringEngine::Start(IoBlock* block) {
  Enable();
  if (enable_error_ != 0) {
    refused_.push_back(block);
    return;
  }
  io_uring_sqe* sqe = NextSqe();
  Prepare(sqe, *block);
  io_uring_sqe_set_data(sqe, block);
}

void UringEngine::Flush() {
  if (enable_error_ != 0 || io_uring_sq_ready(&ring_) == 0) return;
  // What the kernel does not take now (a signal, no memory at the moment)
  // stays in the ring and goes with the next Exchange.
  io_uring_submit(&ring_);
}

void UringEngine::ArmWake() {
  if (wake_armed_) return;
  io_uring_sqe* sqe = NextSqe();
  io_uring_prep_poll_add(sqe, wake_fd_.get(), POLLIN);
  io_uring_sqe_set_data(sqe, nullptr);
  wake_armed_ = true;
}

bool UringEngine::Exchange(absl::Duration wait) {
  Enable();
  if (enable_error_ != 0) {
    for (IoBlock* block : std::exchange(refused_, {})) queue().Returned(block, -enable_error_);
    if (!queue().has_completed()) {
      pollfd wake = {.fd = wake_fd_.get(), .events = POLLIN, .revents = 0};
      ::poll(&wake, 1, static_cast<int>(absl::ToInt64Milliseconds(wait)));
    }
    return ConsumeWake();
  }
  ArmWake();
  int result;
  if (wait > absl::ZeroDuration()) {
    __kernel_timespec timeout = {.tv_sec = absl::ToInt64Seconds(wait),
                                 .tv_nsec = absl::ToInt64Nanoseconds(wait) % 1000000000};
    io_uring_cqe* first = nullptr;
    result = io_uring_submit_and_wait_timeout(&ring_, &first, 1, &timeout, nullptr);
  } else {
    result = io_uring_submit_and_get_events(&ring_);
  }
  // The time is up, a signal came, or the kernel is short of memory for the
  // moment: what was not taken goes next time. Anything else means that the
  // ring itself is broken, with transfers under way into the caller's memory.
  SPILLWAY_CHECK(result >= 0 || result == -ETIME || result == -EINTR || result == -EAGAIN ||
                 result == -EBUSY || result == -ENOMEM);
  return Reap();
}

bool UringEngine::Reap() {
  bool woken = false;
  io_uring_cqe* cqe;
  while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
    const uint64_t data = cqe->user_data;
    const int result = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    if (data == LIBURING_UDATA_TIMEOUT) continue;
    if (data == 0) {
      wake_armed_ = false;
      woken |= ConsumeWake();
    } else {
      queue().Returned(reinterpret_cast<IoBlock*>(data), result);
    }
  }
  return woken;
}

// The flag is cleared after the eventfd is drained: a Wake in between writes
// nothing, but is answered by the return of this very Poll.
bool UringEngine::ConsumeWake() {
  uint64_t count;
  (void)!::read(wake_fd_.get(), &count, sizeof(count));
  return wake_pending_.exchange(false);
}

void UringEngine::Wake() {
  if (wake_pending_.exchange(true)) return;
  const uint64_t one = 1;
  (void)!::write(wake_fd_.get(), &one, sizeof(one));
}

}  // namespace spillway
