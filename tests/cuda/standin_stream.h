// Streams and events of the stand-in for libcudart: each stream is a thread that does what was
// put into it, one after the other, and dawdles if a seed says so.
//
// What a stream does meets nothing of another's but through markers, so that ThreadSanitizer sees
// a wait that is missing as the race that it is.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include "io/base/mutex.h"

namespace spillway {

// A place in a stream. Any thread.
class StandinMarker {
 public:
  void Reach();
  void Await();

 private:
  Mutex mutex_;
  CondVar changed_;
  bool reached_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace spillway

// cudaEvent_t
struct CUevent_st {
  int device = 0;
  bool blocks = false;  // cudaEventBlockingSync
  // Where it was last recorded; null: nowhere yet. The runtime's lock guards it.
  std::shared_ptr<spillway::StandinMarker> recorded;
};

// cudaStream_t. Any thread.
struct CUstream_st {
 public:
  // `fault`: what a kernel has broken the context with (0: nothing); then work is passed over.
  CUstream_st(int device, uint64_t seed, std::atomic<int>* fault);
  // What was put in is done first.
  ~CUstream_st();

  int device() const { return device_; }
  void Put(std::function<void()> work);
  // Bytes arrive in pieces, the last ones first.
  void PutCopy(char* to, const char* from, uint64_t bytes);
  void PutWait(std::shared_ptr<spillway::StandinMarker> marker);
  std::shared_ptr<spillway::StandinMarker> PutMarker();

 private:
  void Work();
  void Dawdle();
  void PutAlways(std::function<void()> work);

  const int device_;
  const bool dawdles_;
  std::atomic<int>* const fault_;
  std::minstd_rand random_;  // the thread's
  spillway::Mutex mutex_;
  spillway::CondVar changed_;
  std::deque<std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};
