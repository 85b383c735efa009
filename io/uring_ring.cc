#include "io/uring_ring.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "io/base/check.h"

namespace spillway {
namespace {

constexpr unsigned kTaskRun = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_DEFER_TASKRUN;

// From the newest kernel to the oldest: 6.1, 6.0, 5.19, 5.6. A ring is created disabled only if it
// is tied to a thread.
constexpr unsigned kSetupFlags[] = {
    kTaskRun | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_R_DISABLED,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_R_DISABLED,
    IORING_SETUP_COOP_TASKRUN,
    0,
};

// How long the kernel's submission thread polls before it sleeps.
constexpr unsigned kSqpollIdleMilliseconds = 20;

// The kernel's limits: bytes of one registered buffer, and their number.
constexpr uint64_t kLargestBufferBytes = uint64_t{1} << 30;
constexpr size_t kMostBuffers = 1 << 14;

unsigned ModeFlags(UringRing::Mode mode) {
  if (mode == UringRing::Mode::kPoll) return IORING_SETUP_IOPOLL;
  if (mode == UringRing::Mode::kSqpoll) return IORING_SETUP_SQPOLL;
  return 0;
}

}  // namespace

UringRing::~UringRing() {
  if (exists_) io_uring_queue_exit(&ring_);
}

int UringRing::Create(uint32_t entries, Mode mode) {
  SPILLWAY_CHECK(!exists_);
  int error = EINVAL;
  for (unsigned flags : kSetupFlags) {
    // With a kernel submission thread there is no task to run completions in.
    if (mode == Mode::kSqpoll) flags &= ~kTaskRun;
    io_uring_params parameters = {};
    parameters.flags = flags | ModeFlags(mode);
    parameters.sq_thread_idle = kSqpollIdleMilliseconds;
    error = -io_uring_queue_init_params(entries, &ring_, &parameters);
    if (error == 0) {
      setup_flags_ = parameters.flags;
      exists_ = true;
      return 0;
    }
    if (error != EINVAL) break;
  }
  return error;
}

std::vector<std::string> UringRing::flag_names() const {
  constexpr std::pair<unsigned, const char*> kNames[] = {
      {IORING_SETUP_DEFER_TASKRUN, "DEFER_TASKRUN"},
      {IORING_SETUP_SINGLE_ISSUER, "SINGLE_ISSUER"},
      {IORING_SETUP_COOP_TASKRUN, "COOP_TASKRUN"},
      {IORING_SETUP_IOPOLL, "IOPOLL"},
      {IORING_SETUP_SQPOLL, "SQPOLL"},
  };
  std::vector<std::string> names;
  for (const auto& [flag, name] : kNames) {
    if ((setup_flags_ & flag) != 0) names.push_back(name);
  }
  return names;
}

int UringRing::RegisterMemory(const std::vector<IoMemory>& memory) {
  std::vector<iovec> pieces;
  std::vector<Registered> buffers;
  for (const IoMemory& range : memory) {
    for (uint64_t begin = 0; begin < range.size_bytes; begin += kLargestBufferBytes) {
      const uint64_t size_bytes = std::min(kLargestBufferBytes, range.size_bytes - begin);
      const auto address = reinterpret_cast<uintptr_t>(range.data + begin);
      buffers.push_back({address, address + size_bytes, static_cast<int>(pieces.size())});
      pieces.push_back({.iov_base = range.data + begin, .iov_len = size_bytes});
    }
  }
  if (pieces.empty()) return 0;
  if (pieces.size() > kMostBuffers) return E2BIG;
  const int error =
      -io_uring_register_buffers(&ring_, pieces.data(), static_cast<unsigned>(pieces.size()));
  if (error != 0) return error;
  std::sort(buffers.begin(), buffers.end(),
            [](const Registered& a, const Registered& b) { return a.begin < b.begin; });
  buffers_ = std::move(buffers);
  return 0;
}

int UringRing::RegisterFiles(const std::vector<const File*>& files) {
  if (files.empty()) return 0;
  std::vector<int> fds;
  for (const File* file : files) fds.push_back(file->fd());
  const int error = -io_uring_register_files(&ring_, fds.data(), static_cast<unsigned>(fds.size()));
  if (error == 0) fds_ = std::move(fds);
  return error;
}

// The ring's descriptor is not registered: registration belongs to a thread's own table, which
// another thread's destructor would damage, and saves nothing measurable per transfer of a MiB.
int UringRing::Enable() {
  if ((setup_flags_ & IORING_SETUP_R_DISABLED) == 0) return 0;
  return -io_uring_enable_rings(&ring_);
}

io_uring_sqe* UringRing::NextSqe() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  // The kernel thread reports a batch as taken only after it has started all of it.
  while (sqe == nullptr && (setup_flags_ & IORING_SETUP_SQPOLL) != 0) {
    io_uring_submit(&ring_);
    if (io_uring_sqring_wait(&ring_) == -EOWNERDEAD) return nullptr;
    sqe = io_uring_get_sqe(&ring_);
  }
  SPILLWAY_CHECK(sqe != nullptr);  // the ring has an entry for each block in flight
  return sqe;
}

const UringRing::Registered* UringRing::BufferOf(const IoBlock& block) const {
  const auto begin = reinterpret_cast<uintptr_t>(block.data);
  auto after = std::upper_bound(buffers_.begin(), buffers_.end(), begin,
                                [](uintptr_t at, const Registered& b) { return at < b.begin; });
  if (after == buffers_.begin()) return nullptr;
  const Registered& buffer = *std::prev(after);
  return begin + block.size_bytes <= buffer.end ? &buffer : nullptr;
}

bool UringRing::Add(IoBlock* block) {
  io_uring_sqe* sqe = NextSqe();
  if (sqe == nullptr) return false;
  const auto size_bytes = static_cast<unsigned>(block->size_bytes);
  const auto file = std::find(fds_.begin(), fds_.end(), block->fd);
  const int fd = file == fds_.end() ? block->fd : static_cast<int>(file - fds_.begin());
  const Registered* buffer = BufferOf(*block);
  const bool read = block->op == IoOp::kRead;
  if (buffer != nullptr) {
    (read ? io_uring_prep_read_fixed(sqe, fd, block->data, size_bytes, block->offset_bytes,
                                     buffer->index)
          : io_uring_prep_write_fixed(sqe, fd, block->data, size_bytes, block->offset_bytes,
                                      buffer->index));
  } else if (read) {
    io_uring_prep_read(sqe, fd, block->data, size_bytes, block->offset_bytes);
  } else {
    io_uring_prep_write(sqe, fd, block->data, size_bytes, block->offset_bytes);
  }
  if (file != fds_.end()) io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
  io_uring_sqe_set_data(sqe, block);
  return true;
}

bool UringRing::Holds(const IoBlock* block) const {
  if ((setup_flags_ & IORING_SETUP_SQPOLL) != 0) return false;  // may be taken at any time
  const io_uring_sq& sq = ring_.sq;
  for (unsigned at = *sq.khead; at != sq.sqe_tail; ++at) {
    if (sq.sqes[at & sq.ring_mask].user_data == reinterpret_cast<uint64_t>(block)) return true;
  }
  return false;
}

}  // namespace spillway
