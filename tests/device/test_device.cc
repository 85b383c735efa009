#include "tests/device/test_device.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"

namespace spillway {
namespace {

constexpr int kPoison = 0xff;
constexpr uint64_t kPageBytes = 4096;

// Whether [data, data + bytes) lies in one of the ranges.
bool Within(const std::map<const char*, uint64_t>& ranges, const void* data, uint64_t bytes) {
  const auto* begin = static_cast<const char*>(data);
  auto it = ranges.upper_bound(begin);
  if (it == ranges.begin()) return false;
  --it;
  return begin + bytes <= it->first + it->second;
}

// The next number of a stream's own dice (SplitMix64).
uint64_t Next(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

struct TestDevice::Event : DeviceEventState {
  const TestDevice* device = nullptr;
  bool happened = false;     // guarded by the device's mutex
  std::vector<int> waiting;  // queues that stand before it
};

TestDevice::TestDevice(const TestDeviceOptions& options) : options_(options) {
  if (options_.executor != nullptr) return;
  for (int queue = 0; queue < kQueues; ++queue) {
    threads_[queue] = std::thread([this, queue] { RunThread(queue); });
  }
}

TestDevice::~TestDevice() {
  {
    MutexLock lock(mutex_);
    SPILLWAY_CHECK(idle() && memory_.empty() && registered_.empty());
    stopping_ = true;
    for (CondVar& ready : ready_) ready.NotifyAll();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

// --- Memory ---------------------------------------------------------------------

absl::StatusOr<char*> TestDevice::Allocate(uint64_t bytes) {
  MutexLock lock(mutex_);
  if (allocated_bytes_ + bytes > options_.memory_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(options_.memory_bytes - allocated_bytes_,
                                                     " bytes of the test device are free, not ",
                                                     bytes));
  }
  const uint64_t rounded = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  auto* data = static_cast<char*>(std::aligned_alloc(kPageBytes, std::max(rounded, kPageBytes)));
  SPILLWAY_CHECK(data != nullptr);
  std::memset(data, kPoison, bytes);
  memory_[data] = bytes;
  allocated_bytes_ += bytes;
  return data;
}

void TestDevice::Free(char* data) {
  MutexLock lock(mutex_);
  const auto it = memory_.find(data);
  SPILLWAY_CHECK(it != memory_.end());
  allocated_bytes_ -= it->second;
  memory_.erase(it);
  std::free(data);
}

absl::Status TestDevice::RegisterHost(char* data, uint64_t bytes) {
  MutexLock lock(mutex_);
  if (reinterpret_cast<uintptr_t>(data) % kPageBytes != 0) {
    return absl::InvalidArgumentError("memory that does not begin with a page can't be registered");
  }
  registered_[data] = bytes;
  return absl::OkStatus();
}

void TestDevice::UnregisterHost(char* data) {
  MutexLock lock(mutex_);
  SPILLWAY_CHECK(registered_.erase(data) == 1);
}

absl::Status TestDevice::CheckCopy(const void* to, const void* from, uint64_t bytes) const {
  const bool to_own = Within(memory_, to, bytes), from_own = Within(memory_, from, bytes);
  const bool to_known = to_own || Within(registered_, to, bytes);
  const bool from_known = from_own || Within(registered_, from, bytes);
  if (to_known && from_known && (to_own || from_own)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a copy of ", bytes, " bytes ", from_known ? "to" : "from",
                   " memory that is neither the test device's nor registered with it"));
}

// --- Work -----------------------------------------------------------------------

bool TestDevice::CanTake(const Queue& queue) const {
  if (queue.items.empty() || queue.working) return false;
  const Item& next = queue.items.front();
  return next.awaited == nullptr || next.awaited->happened;
}

bool TestDevice::idle() const {
  for (const Queue& queue : queues_) {
    if (!queue.items.empty() || queue.working) return false;
  }
  return true;
}

void TestDevice::Schedule(int queue) {
  if (queues_[queue].items.empty() && !queues_[queue].working) emptied_.NotifyAll();
  if (!CanTake(queues_[queue])) return;
  if (options_.executor == nullptr) return ready_[queue].NotifyOne();
  if (queues_[queue].scheduled) return;
  queues_[queue].scheduled = true;
  options_.executor->Run([this, queue] {
    {
      MutexLock lock(mutex_);
      queues_[queue].scheduled = false;
    }
    GoOn(queue);
  });
}

void TestDevice::Put(int queue, Item item) {
  MutexLock lock(mutex_);
  item.dropped = !broken_.ok();
  queues_[queue].items.push_back(std::move(item));
  Schedule(queue);
}

// Takes the next item of a queue that stands before nothing.
void TestDevice::GoOn(int queue) {
  Item item;
  {
    MutexLock lock(mutex_);
    if (!CanTake(queues_[queue])) return;
    item = std::move(queues_[queue].items.front());
    queues_[queue].items.pop_front();
    queues_[queue].working = true;
  }
  Do(queue, std::move(item));
  MutexLock lock(mutex_);
  queues_[queue].working = false;
  Schedule(queue);
}

void TestDevice::Do(int queue, Item item) {
  absl::Status status;
  bool dropped;
  {
    MutexLock lock(mutex_);
    status = broken_;
    dropped = item.dropped || queues_[queue].broken;
  }
  if (item.work && !dropped) {
    if (const absl::Status done = item.work(); !done.ok()) {
      MutexLock lock(mutex_);
      queues_[queue].broken = true;
      if (broken_.ok()) broken_ = done;
    }
  }
  if (item.note) item.note(status);
  if (item.recorded == nullptr) return;
  MutexLock lock(mutex_);
  item.recorded->happened = true;
  for (int waiting : std::exchange(item.recorded->waiting, {})) Schedule(waiting);
}

void TestDevice::RunThread(int queue) {
  uint64_t dice = options_.seed * kQueues + queue;
  while (true) {
    {
      MutexLock lock(mutex_);
      while (!stopping_ && !CanTake(queues_[queue])) ready_[queue].Wait(mutex_);
      if (stopping_) return;
    }
    if (options_.most_dawdling_us > 0 && Next(dice) % 4 == 0) {
      const auto pause = std::chrono::microseconds(Next(dice) % options_.most_dawdling_us);
      std::this_thread::sleep_for(pause);
    }
    GoOn(queue);
  }
}

void TestDevice::Copy(StreamId stream, void* to, const void* from, uint64_t bytes) {
  absl::Status possible;
  {
    MutexLock lock(mutex_);
    ++copies_;
    possible = CheckCopy(to, from, bytes);
  }
  if (!possible.ok()) {
    return Put(static_cast<int>(stream), {.work = [possible] { return possible; }});
  }
  const auto part = [&](uint64_t begin, uint64_t end) {
    Put(static_cast<int>(stream), {.work = [=] {
          std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                      end - begin);
          return absl::OkStatus();
        }});
  };
  part(0, bytes / 2);
  part(bytes / 2, bytes);
}

void TestDevice::Launch(StreamId stream, Kernel kernel) {
  Put(static_cast<int>(stream),
      {.work = [this, kernel = std::move(kernel)] { return kernel(options_.native_stream); }});
}

DeviceEvent TestDevice::Record(StreamId stream) {
  auto event = std::make_shared<Event>();
  event->device = this;
  Put(static_cast<int>(stream), {.recorded = event});
  return event;
}

void TestDevice::Wait(StreamId stream, const DeviceEvent& event) {
  if (event == nullptr) return;
  auto awaited = std::static_pointer_cast<Event>(event);
  SPILLWAY_CHECK(awaited->device == this);
  {
    MutexLock lock(mutex_);
    if (!awaited->happened) awaited->waiting.push_back(static_cast<int>(stream));
  }
  Put(static_cast<int>(stream), {.awaited = std::move(awaited)});
}

void TestDevice::Notify(StreamId stream, Done done) {
  Put(static_cast<int>(stream), {.note = std::move(done)});
}

DeviceEvent TestDevice::Discard(char* data, uint64_t bytes, const std::vector<DeviceEvent>& after) {
  for (const DeviceEvent& event : after) {
    auto awaited = std::static_pointer_cast<Event>(event);
    {
      MutexLock lock(mutex_);
      if (!awaited->happened) awaited->waiting.push_back(kJanitor);
    }
    Put(kJanitor, {.awaited = std::move(awaited)});
  }
  auto discarded = std::make_shared<Event>();
  discarded->device = this;
  Put(kJanitor, {.work =
                     [=] {
                       std::memset(data, kPoison, bytes);
                       return absl::OkStatus();
                     },
                 .recorded = discarded});
  return discarded;
}

void TestDevice::BeginComputing(StreamId stream) {
  if (options_.executor != nullptr || options_.ops_are_launched) return;
  MutexLock lock(mutex_);
  const Queue& queue = queues_[static_cast<int>(stream)];
  while (!queue.items.empty() || queue.working) emptied_.Wait(mutex_);
}

absl::Status TestDevice::Synchronize() {
  if (options_.executor != nullptr) {
    while (true) {
      {
        MutexLock lock(mutex_);
        if (idle()) return broken_;
      }
      SPILLWAY_CHECK(options_.run_one());  // else it waits for what never happens
    }
  }
  MutexLock lock(mutex_);
  while (!idle()) emptied_.Wait(mutex_);
  return broken_;
}

uint64_t TestDevice::copies() const {
  MutexLock lock(mutex_);
  return copies_;
}

}  // namespace spillway
