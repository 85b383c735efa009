#include "swap/device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>
#include <sys/resource.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "swap/device/cuda/cuda_facts.h"
#include "swap/device/cuda/cuda_status.h"

namespace spillway {
namespace {

constexpr absl::string_view kStreamNames[kStreams] = {"the compute stream", "the stream to the GPU",
                                                      "the stream to the host",
                                                      "the stream of exchanges"};

class CudaEvent final : public DeviceEventState {
 public:
  CudaEvent(CUevent_st* event, CudaEventPool* pool) : event_(event), pool_(pool) {}
  ~CudaEvent() override { pool_->Give(event_); }

  CUevent_st* native() const { return event_; }

 private:
  CUevent_st* const event_;
  CudaEventPool* const pool_;
};

// Where pinning was refused, most likely a limit is the reason, and which cannot be asked.
std::string LimitsOnPinning() {
  rlimit limit = {};
  const bool known = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0;
  return absl::StrCat(
      "pinned memory cannot be swapped out, so it must fit the machine's memory and the cgroup's "
      "limit (memory.max); the limit on locked memory (ulimit -l, RLIMIT_MEMLOCK) is ",
      !known                            ? "unknown"
      : limit.rlim_cur == RLIM_INFINITY ? "none"
                                        : FormatBytes(limit.rlim_cur),
      "; raise what is too small, or lower --host-memory");
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(int ordinal) {
  ASSIGN_OR_RETURN(const CudaDeviceFacts facts, ReadCudaDevice(ordinal));
  RETURN_IF_ERROR(CheckCudaDevice(facts));
  std::unique_ptr<CudaDevice> device(
      new CudaDevice(ordinal, absl::StrCat(facts.name, " (device ", ordinal, ")")));
  RETURN_IF_ERROR(device->Bind());
  for (int i = 0; i < kStreams; ++i) {
    ASSIGN_OR_RETURN(
        device->streams_[i],
        CudaStream::Create(ordinal, absl::StrCat(kStreamNames[i], " of ", device->name_),
                           &device->note_events_, &device->error_));
  }
  return device;
}

CudaDevice::CudaDevice(int ordinal, std::string name)
    : ordinal_(ordinal),
      name_(std::move(name)),
      events_(cudaEventDisableTiming),
      note_events_(cudaEventDisableTiming | cudaEventBlockingSync) {}

CudaDevice::~CudaDevice() {
  MutexLock lock(memory_mutex_);
  SPILLWAY_CHECK(allocated_.empty());
  SPILLWAY_CHECK(registered_.empty());
  // The streams and then the events check and destroy themselves.
  (void)Bind();
}

absl::Status CudaDevice::Bind() const {
  if (const cudaError_t error = cudaSetDevice(ordinal_); error != cudaSuccess) {
    return CudaStatus(error, absl::StrCat("cudaSetDevice to ", name_));
  }
  return absl::OkStatus();
}

bool CudaDevice::Begin() {
  if (error_.seen()) return false;
  absl::Status bound = Bind();
  if (!bound.ok()) error_.Report(std::move(bound));
  return !error_.seen();
}

absl::StatusOr<char*> CudaDevice::Allocate(uint64_t bytes) {
  if (error_.seen()) return error_.status();
  RETURN_IF_ERROR(Bind());
  void* data = nullptr;
  if (const cudaError_t error = cudaMalloc(&data, bytes); error != cudaSuccess) {
    if (error == cudaErrorMemoryAllocation) return OutOfMemory(bytes);
    return CudaStatus(error, absl::StrCat("cudaMalloc of ", FormatBytes(bytes), " on ", name_));
  }
  MutexLock lock(memory_mutex_);
  allocated_[static_cast<char*>(data)] = bytes;
  return static_cast<char*>(data);
}

absl::Status CudaDevice::OutOfMemory(uint64_t bytes) const {
  auto memory = ReadCudaMemory(ordinal_);
  const std::string free =
      memory.ok() ? absl::StrCat(FormatBytes(memory->free_bytes), " of ",
                                 FormatBytes(memory->total_bytes), " are free there")
                  : absl::StrCat("how much is free is unknown (", memory.status().message(), ")");
  return CudaStatus(cudaErrorMemoryAllocation, absl::StrCat("cudaMalloc of ", FormatBytes(bytes),
                                                            " on ", name_, ", and ", free));
}

void CudaDevice::Free(char* data) {
  {
    MutexLock lock(memory_mutex_);
    SPILLWAY_CHECK(allocated_.erase(data) == 1);
  }
  // Also on a broken device, and where this thread cannot be bound: what broke it need not be the
  // context, and the address says whose memory it is.
  absl::Status bound = Bind();
  if (!bound.ok()) error_.Report(std::move(bound));
  if (const cudaError_t error = cudaFree(data); error != cudaSuccess) {
    error_.Report(CudaStatus(error, absl::StrCat("cudaFree on ", name_)));
  }
}

absl::Status CudaDevice::RegisterHost(char* data, uint64_t bytes) {
  if (error_.seen()) return error_.status();
  RETURN_IF_ERROR(Bind());
  const cudaError_t error = cudaHostRegister(data, bytes, cudaHostRegisterPortable);
  if (error == cudaErrorMemoryAllocation || error == cudaErrorOperatingSystem) {
    (void)cudaGetLastError();
    return absl::ResourceExhaustedError(absl::StrCat(
        "cudaHostRegister of ", FormatBytes(bytes), " for ", name_, ": ", cudaGetErrorString(error),
        " (", cudaGetErrorName(error), "); ", LimitsOnPinning()));
  }
  if (error != cudaSuccess) {
    return CudaStatus(error,
                      absl::StrCat("cudaHostRegister of ", FormatBytes(bytes), " for ", name_));
  }
  MutexLock lock(memory_mutex_);
  registered_[data] = bytes;
  return absl::OkStatus();
}

void CudaDevice::UnregisterHost(char* data) {
  {
    MutexLock lock(memory_mutex_);
    SPILLWAY_CHECK(registered_.erase(data) == 1);
  }
  absl::Status bound = Bind();
  if (!bound.ok()) error_.Report(std::move(bound));
  if (const cudaError_t error = cudaHostUnregister(data); error != cudaSuccess) {
    error_.Report(CudaStatus(error, absl::StrCat("cudaHostUnregister for ", name_)));
  }
}

void CudaDevice::Copy(StreamId stream, void* to, const void* from, uint64_t bytes) {
  if (bytes == 0 || !Begin()) return;
  // Which of the two is the device's, the addresses say.
  if (const cudaError_t error =
          cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, At(stream).Put());
      error != cudaSuccess) {
    error_.Report(CudaStatus(
        error, absl::StrCat("cudaMemcpyAsync of ", FormatBytes(bytes), " in ", At(stream).name())));
  }
}

void CudaDevice::Launch(StreamId stream, Kernel kernel) {
  if (!Begin()) return;
  // A launch reports by the thread's last error: what another call has left there is not its.
  (void)cudaGetLastError();
  absl::Status status = kernel(At(stream).Put());
  if (!status.ok()) {
    return error_.Report(Annotate(status, absl::StrCat("a kernel in ", At(stream).name())));
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    error_.Report(CudaStatus(error, absl::StrCat("launch of a kernel in ", At(stream).name())));
  }
}

DeviceEvent CudaDevice::Record(StreamId stream) {
  if (!Begin()) return nullptr;
  auto event = events_.Take();
  if (!event.ok()) {
    error_.Report(Annotate(event.status(), absl::StrCat("an event of ", At(stream).name())));
    return nullptr;
  }
  auto recorded = std::make_shared<CudaEvent>(*event, &events_);
  if (const cudaError_t error = cudaEventRecord(*event, At(stream).Put()); error != cudaSuccess) {
    error_.Report(CudaStatus(error, absl::StrCat("cudaEventRecord in ", At(stream).name())));
    return nullptr;
  }
  return recorded;
}

void CudaDevice::Wait(StreamId stream, const DeviceEvent& event) {
  if (event == nullptr || !Begin()) return;
  if (const cudaError_t error =
          cudaStreamWaitEvent(At(stream).Put(), static_cast<CudaEvent&>(*event).native(), 0);
      error != cudaSuccess) {
    error_.Report(CudaStatus(error, absl::StrCat("cudaStreamWaitEvent in ", At(stream).name())));
  }
}

void CudaDevice::Notify(StreamId stream, Done done) {
  (void)Begin();  // the note comes all the same, with the error
  At(stream).Notify(std::move(done));
}

absl::Status CudaDevice::Synchronize() {
  // A note at the end of each stream comes after all others of it.
  struct Arrivals {
    Mutex mutex;
    CondVar changed;
    int missing ABSL_GUARDED_BY(mutex) = kStreams;
  };
  auto arrivals = std::make_shared<Arrivals>();
  for (int i = 0; i < kStreams; ++i) {
    Notify(static_cast<StreamId>(i), [arrivals](const absl::Status&) {
      MutexLock lock(arrivals->mutex);
      --arrivals->missing;
      arrivals->changed.NotifyAll();
    });
  }
  MutexLock lock(arrivals->mutex);
  while (arrivals->missing > 0) arrivals->changed.Wait(arrivals->mutex);
  return error_.status();
}

}  // namespace spillway
