// A device for tests: its memory is the host's but apart, its streams dawdle, and it refuses what
// a real one would not survive.
//
// With an executor everything is done in its jobs, on one thread, in an order that its seed
// decides: a whole training run can be tried in thousands of orders. Without one each stream is a
// thread that waits a little, now and then, before it goes on.
//
// - Memory that is got, or discarded, is filled with ones: not a number in every dtype.
// - A copy from or to memory that is neither its own nor registered breaks the device.
// - A copy takes its time: whoever touches its memory meanwhile, sees half of it.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "io/base/mutex.h"
#include "swap/device/device.h"
#include "swap/mover/executor.h"

namespace spillway {

struct TestDeviceOptions {
  uint64_t seed = 0;
  uint64_t memory_bytes = uint64_t{1} << 40;
  // A thread waits up to so long, now and then.
  int most_dawdling_us = 50;
  // Operations are put into the compute stream: BeginComputing returns at once, as it does with
  // an executor.
  bool ops_are_launched = false;
  // What is launched is given this: where it is not null, kernels have to do it.
  void* native_stream = nullptr;
  Executor* executor = nullptr;
  // With an executor: lets the next job run; false when there is none.
  std::function<bool()> run_one = {};
};

class TestDevice final : public Device {
 public:
  explicit TestDevice(const TestDeviceOptions& options);
  ~TestDevice() override;

  std::string name() const override { return "test device"; }

  absl::StatusOr<char*> Allocate(uint64_t bytes) override;
  void Free(char* data) override;
  absl::Status RegisterHost(char* data, uint64_t bytes) override;
  void UnregisterHost(char* data) override;

  void Copy(StreamId stream, void* to, const void* from, uint64_t bytes) override;
  void Launch(StreamId stream, Kernel kernel) override;
  DeviceEvent Record(StreamId stream) override;
  void Wait(StreamId stream, const DeviceEvent& event) override;
  void Notify(StreamId stream, Done done) override;
  DeviceEvent Discard(char* data, uint64_t bytes, const std::vector<DeviceEvent>& after) override;
  void BeginComputing(StreamId stream) override;
  absl::Status Synchronize() override;

  uint64_t copies() const;

 private:
  static constexpr int kJanitor = kStreams;  // fills what was discarded
  static constexpr int kQueues = kStreams + 1;

  struct Event;
  // One thing in a stream: to wait for `awaited`, or to do `work`, then `recorded` happens.
  struct Item {
    std::shared_ptr<Event> awaited = {};
    std::function<absl::Status()> work = {};
    std::shared_ptr<Event> recorded = {};
    Done note = {};
    bool dropped = false;  // put there when the device was broken
  };
  struct Queue {
    std::deque<Item> items;
    bool scheduled = false;  // a job of the executor's will go on with it
    bool working = false;
    bool broken = false;  // its own work broke the device: what it had besides is dropped
  };

  void Put(int queue, Item item);
  void GoOn(int queue);
  bool CanTake(const Queue& queue) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Schedule(int queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(int queue, Item item);
  void RunThread(int queue);
  absl::Status CheckCopy(const void* to, const void* from, uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TestDeviceOptions options_;
  mutable Mutex mutex_;
  std::array<CondVar, kQueues> ready_;  // has something to take
  CondVar emptied_;                     // a queue
  std::array<Queue, kQueues> queues_ ABSL_GUARDED_BY(mutex_);
  std::map<const char*, uint64_t> memory_ ABSL_GUARDED_BY(mutex_);      // by address: bytes
  std::map<const char*, uint64_t> registered_ ABSL_GUARDED_BY(mutex_);  // likewise
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
  uint64_t allocated_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t copies_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::array<std::thread, kQueues> threads_;
};

}  // namespace spillway
