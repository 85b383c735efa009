#include "io/block_queue.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/span.h"
#include "io/base/status.h"
#include "io/base/trace.h"

namespace spillway {

// One lane per class, and one for kWriteBack writes, which the window may close.
constexpr int kWindowedLane = 3;
constexpr int kDemandLane = static_cast<int>(IoClass::kDemand);
constexpr int kLanes = 4;

static int LaneOf(const IoRequest& request) {
  const bool windowed = request.io_class == IoClass::kWriteBack && request.op == IoOp::kWrite;
  return windowed ? kWindowedLane : static_cast<int>(request.io_class);
}

// Requests waiting for one file, and what is in flight there.
struct FileQueue {
  bool idle() const {
    return in_flight_bytes == 0 &&
           std::all_of(waiting.begin(), waiting.end(), [](const auto& w) { return w.empty(); });
  }

  const File* file = nullptr;
  // By lane: requests with bytes that are not in any block yet; only the first of each may be
  // partly cut.
  std::array<std::deque<IoRequest*>, kLanes> waiting;
  uint64_t in_flight_bytes = 0;
  uint64_t windowed_bytes = 0;  // the part bounded by the window
  int demand_blocks = 0;        // in flight
  uint64_t last_cut = 0;        // when its latest block was cut, as a count of blocks
};

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

BlockQueue::BlockQueue(uint64_t block_bytes, uint32_t depth, Clock clock,
                       uint64_t write_window_bytes, Trace* trace)
    : block_bytes_(block_bytes),
      write_window_bytes_(write_window_bytes),
      clock_(clock),
      trace_(trace),
      slots_(depth) {
  SPILLWAY_CHECK(block_bytes > 0 && depth > 0);
  free_.reserve(depth);
  for (IoBlock& slot : slots_) free_.push_back(&slot);
}

BlockQueue::~BlockQueue() = default;

void BlockQueue::Add(IoRequest* request) {
  SPILLWAY_CHECK(request->file != nullptr && request->done != nullptr);
  const uint64_t alignment_bytes = request->file->alignment_bytes();
  SPILLWAY_CHECK(request->offset_bytes % alignment_bytes == 0);
  SPILLWAY_CHECK(request->size_bytes % alignment_bytes == 0);
  SPILLWAY_CHECK(reinterpret_cast<uintptr_t>(request->data) % alignment_bytes == 0);
  request->submitted_bytes = 0;
  request->blocks_in_flight = 0;
  request->status = absl::OkStatus();
  request->submitted_ns = IsOn(trace_) ? Trace::Now() : 0;
  ++pending_;
  if (request->io_class == IoClass::kDemand) last_demand_ = clock_();
  if (request->size_bytes == 0) {
    completed_.push_back(request);
  } else {
    request->arrival = ++arrivals_;
    QueueOf(request->file).waiting[LaneOf(*request)].push_back(request);
  }
}

FileQueue& BlockQueue::QueueOf(const File* file) {
  FileQueue* idle = nullptr;
  for (const auto& queue : files_) {
    if (queue->file == file) return *queue;
    if (queue->idle()) idle = queue.get();
  }
  if (idle == nullptr) idle = files_.emplace_back(std::make_unique<FileQueue>()).get();
  idle->file = file;
  idle->last_cut = 0;
  return *idle;
}

// Every block but the last keeps the alignment, whatever size was tuned.
uint64_t BlockQueue::NextBlockBytes(const IoRequest& request) const {
  const uint64_t alignment_bytes = request.file->alignment_bytes();
  const uint64_t block_bytes =
      std::max(block_bytes_ - block_bytes_ % alignment_bytes, alignment_bytes);
  return std::min(block_bytes, request.size_bytes - request.submitted_bytes);
}

bool BlockQueue::WindowIsOpen(const FileQueue& queue) const {
  if (queue.windowed_bytes == 0 || !last_demand_ ||
      clock_() - *last_demand_ > kDemandRememberedNanoseconds) {
    return true;
  }
  // A drive also processes transfers that were started after a read.
  const bool demand_now = queue.demand_blocks > 0 || !queue.waiting[kDemandLane].empty();
  const uint64_t window_bytes = demand_now ? write_window_bytes_ / 2 : write_window_bytes_;
  const uint64_t next_bytes = NextBlockBytes(*queue.waiting[kWindowedLane].front());
  return queue.windowed_bytes + std::min(next_bytes, window_bytes) <= window_bytes;
}

// The lane with the file's next block of this class; -1: none may be started.
int BlockQueue::PickLane(const FileQueue& queue, int io_class) const {
  const int plain = queue.waiting[io_class].empty() ? -1 : io_class;
  if (io_class != static_cast<int>(IoClass::kWriteBack) || queue.waiting[kWindowedLane].empty() ||
      !WindowIsOpen(queue)) {
    return plain;
  }
  const bool first = plain < 0 || queue.waiting[kWindowedLane].front()->arrival <
                                      queue.waiting[plain].front()->arrival;
  return first ? kWindowedLane : plain;
}

// The next file of this class; of equal ones the one that waited longest.
BlockQueue::Pick BlockQueue::PickFile(int io_class) const {
  Pick picked;
  for (const auto& queue : files_) {
    const int lane = PickLane(*queue, io_class);
    if (lane < 0) continue;
    if (picked.queue == nullptr ||
        std::pair(queue->in_flight_bytes, queue->last_cut) <
            std::pair(picked.queue->in_flight_bytes, picked.queue->last_cut)) {
      picked = {queue.get(), lane};
    }
  }
  return picked;
}

IoBlock* BlockQueue::Cut(FileQueue& queue, int lane) {
  std::deque<IoRequest*>& waiting = queue.waiting[lane];
  IoRequest& request = *waiting.front();
  IoBlock* block = free_.back();
  free_.pop_back();
  *block = IoBlock();
  block->request = &request;
  block->op = request.op;
  block->fd = request.file->fd();
  block->offset_bytes = request.offset_bytes + request.submitted_bytes;
  block->data = request.data + request.submitted_bytes;
  block->size_bytes = NextBlockBytes(request);
  block->queue = &queue;
  block->cut_bytes = block->size_bytes;
  queue.in_flight_bytes += block->cut_bytes;
  in_flight_bytes_ += block->cut_bytes;
  if (request.submitted_ns > 0 && request.submitted_bytes == 0) {
    request.began_ns = Trace::Now();
    request.in_flight_at_begin = in_flight_bytes_;
  }
  if (lane == kWindowedLane) queue.windowed_bytes += block->cut_bytes;
  if (lane == kDemandLane) ++queue.demand_blocks;
  queue.last_cut = ++cuts_;
  request.submitted_bytes += block->size_bytes;
  ++request.blocks_in_flight;
  if (request.submitted_bytes == request.size_bytes) waiting.pop_front();
  return block;
}

// Takes the highest waiting class, unless a lower one has waited too long; the lowest such goes
// first, since all others pass it over. Writes behind a full window have their share and do not
// count as passed over.
IoBlock* BlockQueue::Next() {
  if (!again_.empty()) {
    const int64_t now_ns = clock_();
    const auto ready = std::find_if(again_.begin(), again_.end(), [&](const IoBlock* block) {
      return block->again_ns <= now_ns;
    });
    if (ready != again_.end()) {
      IoBlock* block = *ready;
      again_.erase(ready);
      return Started(block);
    }
  }
  if (free_.empty()) return nullptr;
  std::array<Pick, kClasses> picks;
  int picked = kClasses;
  bool claimed = false;
  for (int c = kClasses - 1; c >= 0; --c) {
    picks[c] = PickFile(c);
    if (picks[c].queue == nullptr || claimed) continue;
    picked = c;
    claimed = passed_over_[c] >= kPassedOverLimit;
  }
  if (picked == kClasses) return nullptr;
  for (int c = 0; c < kClasses; ++c) {
    const bool passed_over = c > picked && picks[c].queue != nullptr;
    passed_over_[c] = passed_over ? passed_over_[c] + 1 : c == picked ? 0 : passed_over_[c];
  }
  return Started(Cut(*picks[picked].queue, picks[picked].lane));
}

std::optional<int64_t> BlockQueue::PauseNanoseconds() const {
  if (again_.empty()) return std::nullopt;
  const IoBlock* first = *std::min_element(
      again_.begin(), again_.end(),
      [](const IoBlock* a, const IoBlock* b) { return a->again_ns < b->again_ns; });
  return std::max<int64_t>(first->again_ns - clock_(), 0);
}

IoBlock* BlockQueue::Started(IoBlock* block) {
  if (++in_flight_ == 1) {
    MutexLock lock(stats_mutex_);
    busy_since_ = clock_();
  }
  return block;
}

// Processes the block's result; true if it must be started again.
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
  // The file ends within the block, after the needed bytes.
  if (block.op == IoOp::kRead && result >= 0 && request.needed_bytes > 0 &&
      block.offset_bytes + got_bytes >= request.offset_bytes + request.needed_bytes) {
    return false;
  }
  // Direct transfers must continue at an aligned offset: a partly moved alignment unit is moved
  // again.
  const uint64_t moved_bytes = got_bytes - got_bytes % request.file->alignment_bytes();
  if (block.op == IoOp::kRead && result >= 0 && moved_bytes == 0) {
    // Less than one unit was moved, which only an end of file explains.
    Fail(request, EndOfFileError(block, block.offset_bytes + got_bytes));
    return false;
  }
  block.retries = moved_bytes == 0 ? block.retries + 1 : 0;
  if (block.retries > kRetriesLimit) {
    Fail(request, TransferError(block, result < 0 ? static_cast<int>(-result) : EIO));
    return false;
  }
  block.again_ns = block.retries > kEagerRetries ? clock_() + kRetryPauseNanoseconds : 0;
  block.offset_bytes += moved_bytes;
  block.data += moved_bytes;
  block.size_bytes -= moved_bytes;
  return true;
}

void BlockQueue::Fail(IoRequest& request, absl::Status status) {
  request.status = std::move(status);
  // Blocks not cut yet need no removal. A partly cut request is the first of its lane.
  if (request.submitted_bytes < request.size_bytes) {
    std::deque<IoRequest*>& waiting = QueueOf(request.file).waiting[LaneOf(request)];
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
  block->queue->in_flight_bytes -= block->cut_bytes;
  in_flight_bytes_ -= block->cut_bytes;
  if (LaneOf(*request) == kWindowedLane) block->queue->windowed_bytes -= block->cut_bytes;
  if (LaneOf(*request) == kDemandLane) --block->queue->demand_blocks;
  free_.push_back(block);
  if (--request->blocks_in_flight == 0 && request->submitted_bytes == request->size_bytes) {
    completed_.push_back(request);
    RecordSpan(*request);
  }
}

void BlockQueue::RecordSpan(const IoRequest& request) const {
  if (request.submitted_ns == 0) return;
  Span span;
  span.kind = request.op == IoOp::kRead ? SpanKind::kRead : SpanKind::kWrite;
  span.detail = static_cast<uint8_t>(request.io_class);
  span.thread = Trace::ThisThread();
  span.unit = request.unit;
  span.tile = request.tile;
  span.submitted_ns = request.submitted_ns;
  span.begin_ns = request.began_ns;
  span.end_ns = Trace::Now();
  span.bytes = request.size_bytes;
  span.in_flight_at_begin = request.in_flight_at_begin;
  span.in_flight_at_end = in_flight_bytes_;
  trace_->Record(span);
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
    // From here on the request may be submitted again or destroyed.
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
