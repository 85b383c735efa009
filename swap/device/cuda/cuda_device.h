// A GPU through the CUDA runtime: swap/device/device.h over four streams.
//
// Only the streams' own threads and callers of Synchronize wait for the GPU.
// cudaMalloc and cudaFree do synchronise; they are for the start and the end of a run.
//
// A call that CUDA refuses breaks the device, with a status that names the call, CUDA's words for
// it, the device and what to do. Work that is under way then goes on to its end, and the notes
// come after it; work that comes later is dropped. Allocate and RegisterHost are different: they
// return their error, and the device goes on.
//
// The calling thread's current device becomes this one (cudaSetDevice): CUDA would otherwise make
// a context, some hundred MiB, on device 0 for every thread that calls.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/base/mutex.h"
#include "swap/device/cuda/cuda_event_pool.h"
#include "swap/device/cuda/cuda_stream.h"
#include "swap/device/cuda/first_error.h"
#include "swap/device/device.h"

namespace spillway {

class CudaDevice final : public Device {
 public:
  // Makes this process's context on the device. kFailedPrecondition: no such device, or one too
  // small. kUnavailable: another process has it to itself.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int ordinal);
  // REQUIRES besides: every DeviceEvent is gone, and all host memory is unregistered.
  ~CudaDevice() override;

  std::string name() const override { return name_; }
  absl::StatusOr<char*> Allocate(uint64_t bytes) override;
  void Free(char* data) override;
  absl::Status RegisterHost(char* data, uint64_t bytes) override;
  void UnregisterHost(char* data) override;

  void Copy(StreamId stream, void* to, const void* from, uint64_t bytes) override;
  void Launch(StreamId stream, Kernel kernel) override;
  DeviceEvent Record(StreamId stream) override;
  void Wait(StreamId stream, const DeviceEvent& event) override;
  void Notify(StreamId stream, Done done) override;
  void* native_compute_stream() override { return At(StreamId::kCompute).native(); }

  absl::Status Synchronize() override;

 private:
  CudaDevice(int ordinal, std::string name);

  CudaStream& At(StreamId stream) const { return *streams_[static_cast<int>(stream)]; }
  // Makes this device the thread's current one.
  absl::Status Bind() const;
  // False: nothing more is to be done on a broken device.
  bool Begin();
  absl::Status OutOfMemory(uint64_t bytes) const;

  const int ordinal_;
  const std::string name_;
  FirstError error_;
  CudaEventPool events_;       // that streams wait for
  CudaEventPool note_events_;  // that threads wait for
  std::unique_ptr<CudaStream> streams_[kStreams];

  Mutex memory_mutex_;
  // Start and size of what is out: a few arenas.
  std::map<char*, uint64_t> allocated_ ABSL_GUARDED_BY(memory_mutex_);
  std::map<char*, uint64_t> registered_ ABSL_GUARDED_BY(memory_mutex_);
};

}  // namespace spillway
