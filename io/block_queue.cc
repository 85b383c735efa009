#include "io/block_queue.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/check.h"
#include "io/status.h"

namespace spillway {
namespace {

const char* Verb(IoOp op) { return op == IoOp::kRead ? "read" : "write"; }

std::string Describe(const IoRequest& request) {
  return absl::StrCat(Verb(request.op), " ", request.size_bytes, " bytes at offset ",
                      request.offset_bytes, " of ", request.file->path());
}

absl::Status TransferError(const IoBlock& block, int error) {
  const IoRequest& request = *block.request;
  std::string what = Describe(request);
  if (block.offset_bytes != request.offset_bytes) {
    absl::StrAppend(&what, " (failed at offset ", block.offset_bytes, ")");
  }
  return ErrnoStatus(error, what);
}

absl::Status EndOfFileError(const IoBlock& block, uint64_t end_bytes) {
  return absl::OutOfRangeError(absl::StrCat(Describe(*block.request), ": the file ends at offset ",
                                            end_bytes,
                                            "; it was cut short, or is not the file it should be"));
}

}  // namespace

int64_t BlockQueue::MonotonicNanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

BlockQueue::BlockQueue(uint64_t block_bytes, uint32_t depth, Clock clock)
    : block_bytes_(block_bytes), clock_(clock), slots_(depth) {
  SPILLWAY_CHECK(block_bytes > 0 && depth > 0);
  free_.reserve(depth);
  for (IoBlock& slot : slots_) free_.push_back(&slot);
}

void BlockQueue::Add(IoRequest* request) {
  SPILLWAY_CHECK(request->file != nullptr && request->done != nullptr);
  const uint64_t alignment_bytes = request->file->alignment_bytes();
  SPILLWAY_CHECK(request->offset_bytes % alignment_bytes == 0);
  SPILLWAY_CHECK(request->size_bytes % alignment_bytes == 0);
  SPILLWAY_CHECK(reinterpret_cast<uintptr_t>(request->data) % alignment_bytes == 0);
  request->submitted_bytes = 0;
  request->blocks_in_flight = 0;
  request->status = absl::OkStatus();
  ++pending_;
  if (request->size_bytes == 0) {
    completed_.push_back(request);
  } else {
    waiting_[static_cast<size_t>(request->io_class)].push_back(request);
  }
}

// The highest class that waits, except where a lower one has waited too long;
// the lowest such first, since it is passed over by all others.
std::deque<IoRequest*>* BlockQueue::PickClass() {
  int picked = kClasses;
  for (int c = kClasses - 1; c >= 0; --c) {
    if (waiting_[c].empty()) continue;
    picked = c;
    if (passed_over_[c] >= kPassedOverLimit) break;
  }
  if (picked == kClasses) return nullptr;
  for (int c = 0; c < kClasses; ++c) {
    const bool passed_over = c > picked && !waiting_[c].empty();
    passed_over_[c] = passed_over ? passed_over_[c] + 1 : c == picked ? 0 : passed_over_[c];
  }
  return &waiting_[picked];
}

IoBlock* BlockQueue::Cut(std::deque<IoRequest*>& waiting) {
  IoRequest& request = *waiting.front();
  // Every block but the last keeps the alignment, whatever size was tuned.
  const uint64_t alignment_bytes = request.file->alignment_bytes();
  const uint64_t block_bytes =
      std::max(block_bytes_ - block_bytes_ % alignment_bytes, alignment_bytes);
  IoBlock* block = free_.back();
  free_.pop_back();
  *block = {
      .request = &request,
      .op = request.op,
      .fd = request.file->fd(),
      .offset_bytes = request.offset_bytes + request.submitted_bytes,
      .data = request.data + request.submitted_bytes,
      .size_bytes = std::min(block_bytes, request.size_bytes - request.submitted_bytes),
  };
  request.submitted_bytes += block->size_bytes;
  ++request.blocks_in_flight;
  if (request.submitted_bytes == request.size_bytes) waiting.pop_front();
  return block;
}

IoBlock* BlockQueue::Next() {
  if (!again_.empty()) {
    IoBlock* block = again_.front();
    again_.pop_front();
    return Started(block);
  }
  if (free_.empty()) return nullptr;
  std::deque<IoRequest*>* waiting = PickClass();
  return waiting == nullptr ? nullptr : Started(Cut(*waiting));
}

IoBlock* BlockQueue::Started(IoBlock* block) {
  if (++in_flight_ == 1) {
    MutexLock lock(stats_mutex_);
    busy_since_ = clock_();
  }
  return block;
}

// Takes the block's result in; true when it has to be started again.
bool BlockQueue::Continue(IoBlock& block, int64_t result) {
  IoRequest& request = *block.request;
  if (!request.status.ok()) return false;  // the request has failed: let the block go
  if (result < 0 && result != -EINTR && result != -EAGAIN) {
    Fail(request, TransferError(block, static_cast<int>(-result)));
    return false;
  }
  SPILLWAY_CHECK(result < 0 || static_cast<uint64_t>(result) <= block.size_bytes);
  const uint64_t got_bytes = result < 0 ? 0 : static_cast<uint64_t>(result);
  if (got_bytes == block.size_bytes) return false;
  // Direct transfers must go on at an aligned place: what was moved of a
  // broken unit is moved again.
  const uint64_t moved_bytes = got_bytes - got_bytes % request.file->alignment_bytes();
  if (block.op == IoOp::kRead && result >= 0 && moved_bytes == 0) {
    // Less than one unit was left: a file's end is the one reason for that.
    Fail(request, EndOfFileError(block, block.offset_bytes + got_bytes));
    return false;
  }
  block.retries = moved_bytes == 0 ? block.retries + 1 : 0;
  if (block.retries > kRetriesLimit) {
    Fail(request, TransferError(block, result < 0 ? static_cast<int>(-result) : EIO));
    return false;
  }
  block.offset_bytes += moved_bytes;
  block.data += moved_bytes;
  block.size_bytes -= moved_bytes;
  return true;
}

void BlockQueue::Fail(IoRequest& request, absl::Status status) {
  request.status = std::move(status);
  // What is not cut yet is not worth moving. A partly cut request is the
  // first of its class.
  if (request.submitted_bytes < request.size_bytes) {
    std::deque<IoRequest*>& waiting = waiting_[static_cast<size_t>(request.io_class)];
    SPILLWAY_CHECK(waiting.front() == &request);
    waiting.pop_front();
    request.submitted_bytes = request.size_bytes;
  }
  std::erase_if(again_, [&](IoBlock* block) {
    if (block->request != &request) return false;
    Release(block);
    return true;
  });
}

void BlockQueue::Release(IoBlock* block) {
  IoRequest* request = std::exchange(block->request, nullptr);
  free_.push_back(block);
  if (--request->blocks_in_flight == 0 && request->submitted_bytes == request->size_bytes) {
    completed_.push_back(request);
  }
}

void BlockQueue::Returned(IoBlock* block, int64_t result) {
  SPILLWAY_CHECK(in_flight_ > 0 && block->request != nullptr);
  --in_flight_;
  {
    MutexLock lock(stats_mutex_);
    if (result > 0) {
      (block->op == IoOp::kRead ? stats_.read_bytes : stats_.written_bytes) +=
          static_cast<uint64_t>(result);
    }
    if (in_flight_ == 0) {
      stats_.busy_seconds += 1e-9 * static_cast<double>(clock_() - busy_since_);
      busy_since_ = 0;
    }
  }
  if (Continue(*block, result)) {
    again_.push_back(block);
  } else {
    Release(block);
  }
}

size_t BlockQueue::RunCallbacks() {
  const size_t count = completed_.size();
  for (size_t i = 0; i < count; ++i) {
    IoRequest* request = completed_.front();
    completed_.pop_front();
    --pending_;
    // From here on the request may be submitted again or be gone.
    const absl::Status status = std::move(request->status);
    request->done(*request, status);
  }
  return count;
}

IoStats BlockQueue::stats() const {
  MutexLock lock(stats_mutex_);
  IoStats stats = stats_;
  if (busy_since_ != 0) stats.busy_seconds += 1e-9 * static_cast<double>(clock_() - busy_since_);
  return stats;
}

}  // namespace spillway
