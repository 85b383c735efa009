// The calls themselves, with the meaning that CUDA's documentation gives them.
#include "tests/cuda/standin_cudart.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "io/base/check.h"
#include "tests/cuda/standin_runtime.h"

using ::spillway::MutexLock;
using ::spillway::StandinMarker;
using ::spillway::StandinRuntime;

namespace {

// A call: counted, failed if that is planned, else `body` under the lock.
template <typename Body>
cudaError_t Call(const char* function, Body body) {
  StandinRuntime& runtime = StandinRuntime::Get();
  MutexLock lock(runtime.mutex);
  const cudaError_t error = runtime.Enter(function);
  return runtime.Return(error == cudaSuccess ? body(runtime) : error);
}

template <typename Body>
cudaError_t CallInContext(const char* function, Body body) {
  StandinRuntime& runtime = StandinRuntime::Get();
  MutexLock lock(runtime.mutex);
  const cudaError_t error = runtime.EnterContext(function);
  return runtime.Return(error == cudaSuccess ? body(runtime) : error);
}

// A call that gives something back, which also happens when the call fails.
template <typename Body>
cudaError_t Release(const char* function, Body body) {
  StandinRuntime& runtime = StandinRuntime::Get();
  MutexLock lock(runtime.mutex);
  const cudaError_t error = runtime.EnterContext(function);
  const cudaError_t own_error = body(runtime);
  return runtime.Return(error == cudaSuccess ? own_error : error);
}

bool KindFits(cudaMemcpyKind kind, bool to_device, bool from_device) {
  switch (kind) {
    case cudaMemcpyDefault:
      return to_device || from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    default:
      return false;
  }
}

cudaError_t AwaitAndReturn(const std::shared_ptr<StandinMarker>& marker) {
  if (marker != nullptr) marker->Await();
  return StandinRuntime::Return(static_cast<cudaError_t>(StandinRuntime::Get().fault.load()));
}

void AwaitAllStreams() {
  StandinRuntime& runtime = StandinRuntime::Get();
  std::vector<std::shared_ptr<StandinMarker>> markers;
  {
    MutexLock lock(runtime.mutex);
    for (auto& [handle, stream] : runtime.streams) markers.push_back(stream->PutMarker());
  }
  for (const auto& marker : markers) marker->Await();
}

}  // namespace

extern "C" {

// ------------------------------------------------------------------- Errors and versions

cudaError_t cudaGetLastError() {
  StandinRuntime& runtime = StandinRuntime::Get();
  MutexLock lock(runtime.mutex);
  const cudaError_t error = runtime.Enter(__func__);
  const cudaError_t last = std::exchange(StandinRuntime::last_error, cudaSuccess);
  return error == cudaSuccess ? last : error;
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorDevicesUnavailable:
      return "CUDA-capable device(s) is/are busy or unavailable";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    default:
      return "text of an error";
  }
}

const char* cudaGetErrorName(cudaError_t error) {
  thread_local char name[32];
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorDevicesUnavailable:
      return "cudaErrorDevicesUnavailable";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    default:
      std::snprintf(name, sizeof(name), "cudaError %d", static_cast<int>(error));
      return name;
  }
}

cudaError_t cudaDriverGetVersion(int* version) {
  return Call(__func__, [&](StandinRuntime& runtime) {
    *version = runtime.options.driver_version;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return Call(__func__, [&](StandinRuntime& runtime) {
    *version = runtime.options.runtime_version;
    return cudaSuccess;
  });
}

// ------------------------------------------------------------------------------- Devices

cudaError_t cudaGetDeviceCount(int* count) {
  return Call(__func__, [&](StandinRuntime& runtime) {
    *count = 0;
    if (runtime.options.driver_version / 1000 < runtime.options.runtime_version / 1000) {
      return cudaErrorInsufficientDriver;
    }
    if (runtime.options.devices == 0) return cudaErrorNoDevice;
    *count = runtime.options.devices;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return Call(__func__, [&](StandinRuntime& runtime) {
    if (device < 0 || device >= runtime.options.devices) return cudaErrorInvalidDevice;
    std::memset(properties, 0, sizeof(*properties));
    std::snprintf(properties->name, sizeof(properties->name), "%s", runtime.options.name.c_str());
    properties->totalGlobalMem = runtime.options.memory_bytes;
    properties->major = runtime.options.capability / 10;
    properties->minor = runtime.options.capability % 10;
    properties->pciBusID = 0x17 + device;
    properties->hostNumaId = device % 2;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  StandinRuntime& runtime = StandinRuntime::Get();
  MutexLock lock(runtime.mutex);
  const int before = std::exchange(StandinRuntime::current_device, device);
  cudaError_t error = cudaErrorInvalidDevice;
  if (device >= 0 && device < runtime.options.devices) error = runtime.EnterContext(__func__);
  if (error != cudaSuccess) StandinRuntime::current_device = before;
  return runtime.Return(error);
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return CallInContext(__func__, [&](StandinRuntime& runtime) {
    *total_bytes = runtime.options.memory_bytes;
    *free_bytes = runtime.FreeBytes(StandinRuntime::current_device);
    return cudaSuccess;
  });
}

// -------------------------------------------------------------------------------- Memory

cudaError_t cudaMalloc(void** data, size_t bytes) {
  return CallInContext(__func__, [&](StandinRuntime& runtime) {
    *data = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (bytes > runtime.FreeBytes(StandinRuntime::current_device)) return cudaErrorMemoryAllocation;
    const int file = ::memfd_create("device memory", MFD_CLOEXEC);
    SPILLWAY_CHECK(file >= 0 && ::ftruncate(file, static_cast<off_t>(bytes)) == 0);
    void* address = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
    void* access = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    SPILLWAY_CHECK(address != MAP_FAILED && access != MAP_FAILED);
    ::close(file);
    runtime.allocations[static_cast<char*>(address)] = {bytes, static_cast<char*>(access),
                                                        StandinRuntime::current_device};
    *data = address;
    return cudaSuccess;
  });
}

cudaError_t cudaFree(void* data) {
  AwaitAllStreams();
  return Release(__func__, [&](StandinRuntime& runtime) {
    if (data == nullptr) return cudaSuccess;
    const auto found = runtime.allocations.find(static_cast<char*>(data));
    if (found == runtime.allocations.end()) return cudaErrorInvalidValue;
    SPILLWAY_CHECK(::munmap(data, found->second.bytes) == 0);
    SPILLWAY_CHECK(::munmap(found->second.access, found->second.bytes) == 0);
    runtime.allocations.erase(found);
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned int flags) {
  return CallInContext(__func__, [&](StandinRuntime& runtime) {
    char* start = static_cast<char*>(data);
    if (reinterpret_cast<uintptr_t>(start) % 4096 != 0 || bytes == 0 ||
        flags != cudaHostRegisterPortable) {
      return cudaErrorInvalidValue;
    }
    for (const auto& [other, other_bytes] : runtime.registrations) {
      if (start < other + other_bytes && other < start + bytes) {
        return cudaErrorHostMemoryAlreadyRegistered;
      }
    }
    runtime.registrations[start] = bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* data) {
  return Release(__func__, [&](StandinRuntime& runtime) {
    const bool known = runtime.registrations.erase(static_cast<char*>(data)) > 0;
    return known ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return CallInContext(__func__, [&](StandinRuntime& runtime) {
    if (!runtime.Knows(stream)) return cudaErrorInvalidResourceHandle;
    const StandinRuntime::Place target = runtime.Find(to, bytes, stream->device());
    const StandinRuntime::Place source = runtime.Find(from, bytes, stream->device());
    if (target.access == nullptr || source.access == nullptr ||
        !KindFits(kind, target.on_device, source.on_device)) {
      return cudaErrorInvalidValue;
    }
    stream->PutCopy(target.access, source.access, bytes);
    return cudaSuccess;
  });
}

// --------------------------------------------------------------------- Streams and events

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return CallInContext(__func__, [&](StandinRuntime& runtime) {
    // The others would wait for the default stream, in which LibTorch may work.
    if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
    const uint64_t seed = runtime.options.seed;
    auto made = std::make_unique<CUstream_st>(StandinRuntime::current_device,
                                              seed == 0 ? 0 : seed * 31 + ++runtime.streams_made,
                                              &runtime.fault);
    *stream = made.get();
    runtime.streams[*stream] = std::move(made);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::unique_ptr<CUstream_st> gone;  // does what is left to do when the lock is free
  return Release(__func__, [&](StandinRuntime& runtime) {
    const auto found = runtime.streams.find(stream);
    if (found == runtime.streams.end()) return cudaErrorInvalidResourceHandle;
    gone = std::move(found->second);
    runtime.streams.erase(found);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  std::shared_ptr<StandinMarker> end;
  const cudaError_t error = CallInContext(__func__, [&](StandinRuntime& runtime) {
    if (!runtime.Knows(stream)) return cudaErrorInvalidResourceHandle;
    end = stream->PutMarker();
    return cudaSuccess;
  });
  return error == cudaSuccess ? AwaitAndReturn(end) : error;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return CallInContext(__func__, [&](StandinRuntime& runtime) {
    if (!runtime.Knows(stream) || !runtime.Knows(event)) return cudaErrorInvalidResourceHandle;
    if (flags != 0) return cudaErrorInvalidValue;
    if (event->recorded != nullptr) stream->PutWait(event->recorded);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return CallInContext(__func__, [&](StandinRuntime& runtime) {
    // With timing an event costs more.
    if ((flags & cudaEventDisableTiming) == 0) return cudaErrorInvalidValue;
    auto made = std::make_unique<CUevent_st>();
    made->device = StandinRuntime::current_device;
    made->blocks = (flags & cudaEventBlockingSync) != 0;
    *event = made.get();
    runtime.events[*event] = std::move(made);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return Release(__func__, [&](StandinRuntime& runtime) {
    return runtime.events.erase(event) > 0 ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return CallInContext(__func__, [&](StandinRuntime& runtime) {
    if (!runtime.Knows(stream) || !runtime.Knows(event) || event->device != stream->device()) {
      return cudaErrorInvalidResourceHandle;
    }
    event->recorded = stream->PutMarker();
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::shared_ptr<StandinMarker> recorded;
  const cudaError_t error = CallInContext(__func__, [&](StandinRuntime& runtime) {
    if (!runtime.Knows(event)) return cudaErrorInvalidResourceHandle;
    if (!event->blocks) return cudaErrorInvalidValue;  // CUDA would spin
    recorded = event->recorded;
    return cudaSuccess;
  });
  return error == cudaSuccess ? AwaitAndReturn(recorded) : error;
}

}  // extern "C"
