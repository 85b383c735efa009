// A CUDA stream, and the thread that calls back when its work is done.
//
// A thread is used and not cudaLaunchHostFunc, because CUDA calls no host function once the context
// has an error: a caller that waits for it would wait for ever. Here every note is called, with the
// error.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "io/base/mutex.h"
#include "swap/device/cuda/cuda_event_pool.h"
#include "swap/device/cuda/first_error.h"
#include "swap/device/device.h"

struct CUstream_st;

namespace spillway {

class CudaStream {
 public:
  // A stream that waits for no other, the default one included, on device `ordinal`, which is the
  // thread's current one. `name` is for messages: "the stream to the device of NVIDIA H200 (device
  // 0)". Notes take their events from `events`, whose waits block instead of spinning. Both
  // outlive the stream.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(int ordinal, std::string name,
                                                            CudaEventPool* events,
                                                            FirstError* error);
  // REQUIRES: a note has come since the last Put, and every note has.
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  CUstream_st* native() const { return stream_; }
  // The native stream, for a caller that puts work into it.
  CUstream_st* Put() {
    ++put_;
    return stream_;
  }
  const std::string& name() const { return name_; }

  // Device::Notify. Even on a broken device `done` is called only after all work that was put into
  // the stream before the error, as far as CUDA can still tell, so that no memory is released which
  // a copy under way reads or writes.
  void Notify(Device::Done done);

 private:
  struct Note {
    CUevent_st* event;  // null where none could be recorded any more
    uint64_t put;       // put_ when the note was made
    Device::Done done;
  };

  CudaStream(int ordinal, std::string name, CUstream_st* stream, CudaEventPool* events,
             FirstError* error);
  CUevent_st* RecordEvent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work();
  void Await(CUevent_st* event);

  const int ordinal_;
  const std::string name_;
  CUstream_st* const stream_;
  CudaEventPool* const events_;
  FirstError* const error_;
  // How often work was put into the stream, and how much of it is known to be done.
  std::atomic<uint64_t> put_{0};
  std::atomic<uint64_t> done_{0};

  // Held while a note's event is recorded, so that notes lie in the order of their events.
  Mutex mutex_;
  CondVar changed_;
  // The caller bounds their number: a few for each buffer under way.
  std::deque<Note> notes_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace spillway
