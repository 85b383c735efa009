#include "swap/device/cuda/cuda_stream.h"

#include <cuda_runtime_api.h>

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "swap/device/cuda/cuda_status.h"

namespace spillway {

CudaStream::CudaStream(int ordinal, std::string name, CUstream_st* stream, CudaEventPool* events,
                       FirstError* error)
    : ordinal_(ordinal), name_(std::move(name)), stream_(stream), events_(events), error_(error) {}

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(int ordinal, std::string name,
                                                               CudaEventPool* events,
                                                               FirstError* error) {
  CUstream_st* native = nullptr;
  if (const cudaError_t code = cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking);
      code != cudaSuccess) {
    return CudaStatus(code, absl::StrCat("cudaStreamCreateWithFlags for ", name));
  }
  std::unique_ptr<CudaStream> stream(
      new CudaStream(ordinal, std::move(name), native, events, error));
  // The one place where the standard library has no answer but to throw.
  try {
    stream->thread_ = std::thread([s = stream.get()] { s->Work(); });
  } catch (const std::system_error& refused) {
    return ErrnoStatus(refused.code().value(),
                       absl::StrCat("start the thread that waits for ", stream->name_));
  }
  return stream;
}

CudaStream::~CudaStream() {
  {
    MutexLock lock(mutex_);
    SPILLWAY_CHECK(notes_.empty());
    stopping_ = true;
    changed_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
  // No copy may use memory that is released after this.
  SPILLWAY_CHECK(done_ == put_);
  (void)cudaStreamDestroy(stream_);
}

void CudaStream::Notify(Device::Done done) {
  MutexLock lock(mutex_);
  const uint64_t put = put_;
  CUevent_st* event = error_->seen() ? nullptr : RecordEvent();
  notes_.push_back({event, put, std::move(done)});
  changed_.NotifyOne();
}

CUevent_st* CudaStream::RecordEvent() {
  auto event = events_->Take();
  if (!event.ok()) {
    error_->Report(Annotate(event.status(), absl::StrCat("a note of ", name_)));
    return nullptr;
  }
  if (const cudaError_t code = cudaEventRecord(*event, stream_); code != cudaSuccess) {
    error_->Report(CudaStatus(code, absl::StrCat("cudaEventRecord for a note of ", name_)));
    events_->Give(*event);
    return nullptr;
  }
  return *event;
}

void CudaStream::Work() {
  // Else what this thread calls first would make a context on device 0.
  if (const cudaError_t code = cudaSetDevice(ordinal_); code != cudaSuccess) {
    error_->Report(CudaStatus(code, absl::StrCat("cudaSetDevice on the thread of ", name_)));
  }
  while (true) {
    Note note;
    {
      MutexLock lock(mutex_);
      while (notes_.empty() && !stopping_) changed_.Wait(mutex_);
      if (notes_.empty()) return;
      note = std::move(notes_.front());
      notes_.pop_front();
    }
    Await(note.event);
    done_ = note.put;
    note.done(error_->status());
  }
}

void CudaStream::Await(CUevent_st* event) {
  if (event != nullptr) {
    const cudaError_t code = cudaEventSynchronize(event);
    events_->Give(event);
    if (code == cudaSuccess) return;
    error_->Report(CudaStatus(code, absl::StrCat("cudaEventSynchronize on ", name_)));
  }
  // The device is broken and gets no more work: the end of the stream is where the note was put.
  if (const cudaError_t code = cudaStreamSynchronize(stream_); code != cudaSuccess) {
    error_->Report(CudaStatus(code, absl::StrCat("cudaStreamSynchronize on ", name_)));
  }
}

}  // namespace spillway
