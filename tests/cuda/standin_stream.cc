#include "tests/cuda/standin_stream.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

using ::spillway::MutexLock;
using ::spillway::StandinMarker;

void StandinMarker::Reach() {
  MutexLock lock(mutex_);
  reached_ = true;
  changed_.NotifyAll();
}

void StandinMarker::Await() {
  MutexLock lock(mutex_);
  while (!reached_) changed_.Wait(mutex_);
}

CUstream_st::CUstream_st(int device, uint64_t seed, std::atomic<int>* fault)
    : device_(device),
      dawdles_(seed != 0),
      fault_(fault),
      random_(static_cast<uint32_t>(seed * 2654435761u + 1)),
      thread_([this] { Work(); }) {}

CUstream_st::~CUstream_st() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
}

void CUstream_st::PutAlways(std::function<void()> work) {
  MutexLock lock(mutex_);
  work_.push_back(std::move(work));
  changed_.NotifyOne();
}

void CUstream_st::Put(std::function<void()> work) {
  PutAlways([this, work = std::move(work)] {
    Dawdle();
    if (fault_->load() == 0) work();
  });
}

void CUstream_st::PutCopy(char* to, const char* from, uint64_t bytes) {
  Put([this, to, from, bytes] {
    const uint64_t piece = std::max<uint64_t>(bytes / 4, 1);
    for (uint64_t end = bytes; end > 0;) {
      const uint64_t size = std::min(piece, end);
      end -= size;
      std::memmove(to + end, from + end, size);
      Dawdle();
    }
  });
}

void CUstream_st::PutWait(std::shared_ptr<StandinMarker> marker) {
  PutAlways([marker = std::move(marker)] { marker->Await(); });
}

std::shared_ptr<StandinMarker> CUstream_st::PutMarker() {
  auto marker = std::make_shared<StandinMarker>();
  PutAlways([marker] { marker->Reach(); });
  return marker;
}

void CUstream_st::Work() {
  while (true) {
    std::function<void()> work;
    {
      MutexLock lock(mutex_);
      while (work_.empty() && !stopping_) changed_.Wait(mutex_);
      if (work_.empty()) return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
  }
}

void CUstream_st::Dawdle() {
  if (!dawdles_) return;
  const uint32_t draw = random_();
  if (draw % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(draw / 4 % 150));
}
