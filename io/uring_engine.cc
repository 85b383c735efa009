#include "io/uring_engine.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "io/base/check.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/uring_refusal.h"

namespace spillway {
namespace {

// Beside the blocks: the poll for Wake, and the timeout that liburing submits
// by itself on kernels before 5.11.
constexpr uint32_t kOwnEntries = 2;

// How long to wait for transfers of a broken ring. Afterwards the caller owns their memory again,
// although a drive may still write to it; but the run has failed, and must not hang.
constexpr absl::Duration kLastWait = absl::Seconds(5);

// A seccomp filter may allow creating a ring and refuse its use: completing one no-op shows that it
// works.
int TryRing() {
  io_uring ring;
  if (const int error = -io_uring_queue_init(2, &ring, 0); error != 0) return error;
  int error = 0;
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr || !io_uring_opcode_supported(probe, IORING_OP_READ) ||
      !io_uring_opcode_supported(probe, IORING_OP_WRITE)) {
    // Kernels before 5.6 lack the probe and plain reads and writes. With a filter on
    // io_uring_register neither probing nor enabling is possible.
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

// Reads once from a file through a polling ring.
int TryPolledRead(UringRing& ring, const File& file) {
  const uint32_t size_bytes = file.alignment_bytes();
  std::unique_ptr<char, decltype(&std::free)> memory(
      static_cast<char*>(std::aligned_alloc(size_bytes, size_bytes)), &std::free);
  if (memory == nullptr) return ENOMEM;
  io_uring_prep_read(ring.NextSqe(), file.fd(), memory.get(), size_bytes, 0);
  int submitted;
  do {
    submitted = io_uring_submit_and_wait(ring.get(), 1);
  } while (submitted == -EINTR);
  if (submitted < 0) return -submitted;
  // A signal ends the wait of the submission, and of this one, too; the read continues.
  io_uring_cqe* cqe = nullptr;
  int waited;
  do {
    waited = io_uring_wait_cqe(ring.get(), &cqe);
  } while (waited == -EINTR);
  if (waited < 0) {
    (void)memory.release();  // leaked instead of reused while the read may write to it
    return -waited;
  }
  const int result = cqe->res;
  io_uring_cqe_seen(ring.get(), cqe);
  return result < 0 ? -result : 0;
}

// Tries whether the drives of these files can be polled with one read each: a drive without poll
// queues refuses only then.
int TryPolling(const std::vector<const File*>& files) {
  UringRing ring;
  if (const int error = ring.Create(2, UringRing::Mode::kPoll); error != 0) return error;
  if (const int error = ring.Enable(); error != 0) return error;
  for (const File* file : files) {
    if (!file->direct()) continue;
    if (const int error = TryPolledRead(ring, *file); error != 0) return error;
  }
  return 0;
}

}  // namespace

UringEngine::UringEngine(const IoEngineOptions& options, UniqueFd wake_fd)
    : BlockEngine(options), wake_fd_(std::move(wake_fd)) {}

absl::StatusOr<std::unique_ptr<UringEngine>> UringEngine::Create(const IoEngineOptions& options) {
  if (const int error = TryRing(); error != 0) return UringRefusedHere(error);
  UniqueFd wake_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_fd.valid()) return ErrnoStatus(errno, "create an eventfd");
  std::unique_ptr<UringEngine> engine(new UringEngine(options, std::move(wake_fd)));
  RETURN_IF_ERROR(engine->CreateRings(options));
  engine->RegisterWhatIsGiven(options);
  return engine;
}

void UringEngine::Note(const std::string& feature, int error, uint64_t size_bytes) {
  if (error == 0) {
    features_.on.push_back(feature);
  } else {
    features_.refused.push_back({feature, UringFeatureRefusedHere(error, size_bytes)});
  }
}

absl::Status UringEngine::CreateRings(const IoEngineOptions& options) {
  const uint32_t entries = options.depth + kOwnEntries;
  if (options.sqpoll && !options.poll) {
    if (const int error = ring_.Create(entries, UringRing::Mode::kSqpoll); error != 0) {
      Note("SQPOLL", error);
    }
  }
  if (!ring_.exists()) {
    const int error = ring_.Create(entries, UringRing::Mode::kInterrupts);
    if (error != 0) return UringRefusedHere(error);
  }
  for (const std::string& flag : ring_.flag_names()) Note(flag, 0);
  if (options.poll) {
    const int error = CreatePollRing(options);
    polling_ = error == 0;
    Note("IOPOLL", error);
  }
  return absl::OkStatus();
}

int UringEngine::CreatePollRing(const IoEngineOptions& options) {
  if (const int error = TryPolling(options.files); error != 0) return error;
  return poll_ring_.Create(options.depth, UringRing::Mode::kPoll);
}

void UringEngine::RegisterWhatIsGiven(const IoEngineOptions& options) {
  uint64_t size_bytes = 0;
  for (const IoMemory& memory : options.memory) size_bytes += memory.size_bytes;
  if (size_bytes > 0) {
    Note("registered buffers", direct_ring().RegisterMemory(options.memory), size_bytes);
  }
  if (!options.files.empty()) {
    Note("registered files", direct_ring().RegisterFiles(options.files));
  }
}

UringEngine::~UringEngine() {
  if (!ring_.exists()) return;
  // Closing a ring does not end its transfers, whose memory may be freed after this returns. Only
  // the owner may wait for them.
  SPILLWAY_CHECK(queue().in_flight() == 0 || on_owner_thread());
  while (queue().in_flight() > 0) Exchange(absl::Hours(1));
}

std::string UringEngine::flags() const {
  const std::vector<std::string> names = ring_.flag_names();
  return names.empty() ? "no set-up flags" : absl::StrJoin(names, ", ");
}

void UringEngine::Enable() {
  if (enabled_) return;
  enabled_ = true;
  ring_error_ = ring_.Enable();
  if (ring_error_ == 0 && polling_) ring_error_ = poll_ring_.Enable();
  if (ring_error_ != 0) {
    LogError(ErrnoStatus(ring_error_, "enable the io_uring ring").message());
  }
}

void UringEngine::Start(IoBlock* block) {
  Enable();
  if (ring_error_ != 0) {
    refused_.push_back(block);
  } else if (polling_ && block->request->file->direct()) {
    ++polled_in_flight_;
    Add(poll_ring_, block);
  } else {
    Add(ring_, block);
  }
}

void UringEngine::Add(UringRing& ring, IoBlock* block) {
  if (ring.Add(block)) {
    under_way_.push_back(block);
  } else {
    refused_.push_back(block);
    Break(EOWNERDEAD);
  }
}

void UringEngine::Flush() {
  if (ring_error_ != 0) return;
  // Submissions that the kernel refuses now (a signal, temporarily no memory) stay in the ring
  // until the next Exchange.
  for (UringRing* ring : {&ring_, &poll_ring_}) {
    if (ring->exists() && io_uring_sq_ready(ring->get()) > 0) io_uring_submit(ring->get());
  }
}

void UringEngine::ArmWake() {
  if (wake_armed_) return;
  io_uring_sqe* sqe = ring_.NextSqe();
  if (sqe == nullptr) return Break(EOWNERDEAD);
  io_uring_prep_poll_add(sqe, wake_fd_.get(), POLLIN);
  io_uring_sqe_set_data(sqe, nullptr);
  wake_armed_ = true;
}

bool UringEngine::Exchange(absl::Duration wait) {
  Enable();
  if (ring_error_ == 0) ArmWake();
  if (ring_error_ != 0) return ExchangeBroken(wait);
  if (polled_in_flight_ > 0) return ExchangePolling(wait);
  Wait(wait);
  return Reap();
}

// On a timeout, a signal or a temporary lack of memory, the remaining submissions are retried next
// time. Any other error means that the ring is broken.
void UringEngine::NoteEntered(int result) {
  if (result < 0 && result != -ETIME && result != -EINTR && result != -EAGAIN && result != -EBUSY &&
      result != -ENOMEM) {
    Break(-result);
  }
}

void UringEngine::Break(int error) {
  if (ring_error_ != 0) return;
  ring_error_ = error;
  give_up_ = absl::Now() + kLastWait;
  LogError(absl::StrCat(ErrnoStatus(error, "use the io_uring ring").message(),
                        ": all transfers fail from now on; choose the thread-pool engine "
                        "(`--io-engine threads`)"));
}

// Blocks that the kernel has not taken return at once. Others may still be written into the
// caller's memory, so they are waited for until give_up_.
bool UringEngine::ExchangeBroken(absl::Duration wait) {
  if (!under_way_.empty()) {
    if (polled_in_flight_ > 0) {
      (void)io_uring_get_events(poll_ring_.get());
      ReapPolled();
    }
    (void)io_uring_get_events(ring_.get());
    Reap();
    const bool hopeless = absl::Now() >= give_up_;
    std::erase_if(under_way_, [&](IoBlock* block) {
      const bool back =
          hopeless || ring_.Holds(block) || (poll_ring_.exists() && poll_ring_.Holds(block));
      if (back) refused_.push_back(block);
      return back;
    });
    // These are found only by polling.
    if (!under_way_.empty()) wait = std::min(wait, absl::Milliseconds(1));
  }
  for (IoBlock* block : std::exchange(refused_, {})) queue().Returned(block, -ring_error_);
  if (!queue().has_completed()) {
    pollfd wake = {.fd = wake_fd_.get(), .events = POLLIN, .revents = 0};
    ::poll(&wake, 1, static_cast<int>(absl::ToInt64Milliseconds(wait)));
  }
  return ConsumeWake();
}

void UringEngine::Wait(absl::Duration wait) {
  if (wait <= absl::ZeroDuration()) {
    NoteEntered(io_uring_submit_and_get_events(ring_.get()));
    return;
  }
  __kernel_timespec timeout = {.tv_sec = absl::ToInt64Seconds(wait),
                               .tv_nsec = absl::ToInt64Nanoseconds(wait) % 1000000000};
  io_uring_cqe* first = nullptr;
  NoteEntered(io_uring_submit_and_wait_timeout(ring_.get(), &first, 1, &timeout, nullptr));
}

// Polled completions cause no interrupt: waiting is polling in a loop. The other ring, for Wake and
// buffered files, is checked in between.
bool UringEngine::ExchangePolling(absl::Duration wait) {
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(wait);
  for (;;) {
    NoteEntered(io_uring_submit_and_get_events(poll_ring_.get()));
    const uint32_t before = queue().in_flight();
    ReapPolled();
    Wait(absl::ZeroDuration());
    const bool woken = Reap();
    if (woken || queue().in_flight() < before || polled_in_flight_ == 0 || ring_error_ != 0) {
      return woken;
    }
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
}

void UringEngine::ReapPolled() {
  io_uring_cqe* cqe;
  while (io_uring_peek_cqe(poll_ring_.get(), &cqe) == 0) {
    auto* block = reinterpret_cast<IoBlock*>(cqe->user_data);
    const int result = cqe->res;
    io_uring_cqe_seen(poll_ring_.get(), cqe);
    --polled_in_flight_;
    std::erase(under_way_, block);
    if (result == -EOPNOTSUPP && ring_error_ == 0) {
      StopPolling();
      Add(ring_, block);
    } else {
      queue().Returned(block, result);
    }
  }
}

// Called for a drive without poll queues that TryPolling missed: its file was not among those
// given, or the read never reached the drive.
void UringEngine::StopPolling() {
  if (!polling_) return;
  polling_ = false;
  std::erase(features_.on, "IOPOLL");
  Note("IOPOLL", EOPNOTSUPP);
  LogWarning(absl::StrCat("I/O engine: goes on without IOPOLL: ", features_.refused.back().reason));
}

bool UringEngine::Reap() {
  bool woken = false;
  io_uring_cqe* cqe;
  while (io_uring_peek_cqe(ring_.get(), &cqe) == 0) {
    const uint64_t data = cqe->user_data;
    const int result = cqe->res;
    io_uring_cqe_seen(ring_.get(), cqe);
    if (data == LIBURING_UDATA_TIMEOUT) continue;
    if (data == 0) {
      wake_armed_ = false;
      woken |= ConsumeWake();
    } else {
      auto* block = reinterpret_cast<IoBlock*>(data);
      std::erase(under_way_, block);
      queue().Returned(block, result);
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
