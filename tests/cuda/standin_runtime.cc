#include "tests/cuda/standin_runtime.h"

#include <sys/mman.h>

#include <iterator>

#include "io/base/check.h"

namespace spillway {

thread_local cudaError_t StandinRuntime::last_error = cudaSuccess;
thread_local int StandinRuntime::current_device = 0;

namespace {

// The range that starts last of those at or before `address`.
template <typename Value>
const std::pair<char* const, Value>* RangeBefore(const std::map<char*, Value>& ranges,
                                                 const void* address) {
  auto after = ranges.upper_bound(static_cast<char*>(const_cast<void*>(address)));
  return after == ranges.begin() ? nullptr : &*std::prev(after);
}

}  // namespace

StandinRuntime& StandinRuntime::Get() {
  static StandinRuntime& runtime = *new StandinRuntime;
  return runtime;
}

cudaError_t StandinRuntime::Return(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t StandinRuntime::Enter(const std::string& function) {
  const auto failure = failures.find({function, ++calls[function]});
  if (failure == failures.end()) return static_cast<cudaError_t>(fault.load());
  if (failure->second.sticky) fault = failure->second.error;
  return failure->second.error;
}

cudaError_t StandinRuntime::EnterContext(const std::string& function) {
  if (const cudaError_t error = Enter(function); error != cudaSuccess) return error;
  if (options.driver_version / 1000 < options.runtime_version / 1000) {
    return cudaErrorInsufficientDriver;
  }
  if (current_device >= options.devices) return cudaErrorNoDevice;
  if (options.busy) return cudaErrorDevicesUnavailable;
  contexts.insert(current_device);
  return cudaSuccess;
}

StandinRuntime::Place StandinRuntime::Find(const void* address, uint64_t bytes, int device) {
  const char* start = static_cast<const char*>(address);
  if (const auto* found = RangeBefore(allocations, address)) {
    const Allocation& allocation = found->second;
    const uint64_t offset = start - found->first;
    if (offset <= allocation.bytes && bytes <= allocation.bytes - offset &&
        allocation.device == device) {
      return {allocation.access + offset, true};
    }
  }
  if (const auto* found = RangeBefore(registrations, address)) {
    const uint64_t offset = start - found->first;
    if (offset <= found->second && bytes <= found->second - offset) {
      return {found->first + offset, false};
    }
  }
  return {};
}

uint64_t StandinRuntime::FreeBytes(int device) {
  uint64_t bytes = options.memory_bytes;
  for (const auto& [address, allocation] : allocations) {
    if (allocation.device == device) bytes -= allocation.bytes;
  }
  return bytes;
}

void StandinCudart::Reset(const StandinOptions& options) {
  StandinRuntime& runtime = StandinRuntime::Get();
  MutexLock lock(runtime.mutex);
  runtime.streams.clear();
  for (const auto& [address, allocation] : runtime.allocations) {
    SPILLWAY_CHECK(::munmap(address, allocation.bytes) == 0);
    SPILLWAY_CHECK(::munmap(allocation.access, allocation.bytes) == 0);
  }
  runtime.allocations.clear();
  runtime.registrations.clear();
  runtime.events.clear();
  runtime.calls.clear();
  runtime.failures.clear();
  runtime.contexts.clear();
  runtime.streams_made = 0;
  runtime.fault = cudaSuccess;
  runtime.options = options;
  StandinRuntime::last_error = cudaSuccess;
  StandinRuntime::current_device = 0;
}

void StandinCudart::Fail(const std::string& function, int nth, cudaError_t error, bool sticky) {
  StandinRuntime& runtime = StandinRuntime::Get();
  MutexLock lock(runtime.mutex);
  runtime.failures[{function, nth}] = {error, sticky};
}

std::map<std::string, int> StandinCudart::Calls() {
  StandinRuntime& runtime = StandinRuntime::Get();
  MutexLock lock(runtime.mutex);
  return runtime.calls;
}

cudaError_t StandinCudart::Launch(cudaStream_t stream, std::function<cudaError_t()> body) {
  StandinRuntime& runtime = StandinRuntime::Get();
  MutexLock lock(runtime.mutex);
  if (const cudaError_t error = runtime.EnterContext("launch"); error != cudaSuccess) {
    return runtime.Return(error);
  }
  if (!runtime.Knows(stream) || stream->device() != StandinRuntime::current_device) {
    return runtime.Return(cudaErrorInvalidResourceHandle);
  }
  stream->Put([&runtime, body = std::move(body)] {
    if (const cudaError_t error = body(); error != cudaSuccess) runtime.fault = error;
  });
  return cudaSuccess;
}

char* StandinCudart::Access(const void* device_address, uint64_t bytes) {
  StandinRuntime& runtime = StandinRuntime::Get();
  MutexLock lock(runtime.mutex);
  for (int device = 0; device < runtime.options.devices; ++device) {
    const StandinRuntime::Place place = runtime.Find(device_address, bytes, device);
    if (place.on_device) return place.access;
  }
  SPILLWAY_CHECK(false);
}

std::map<std::string, int> StandinCudart::Left() {
  StandinRuntime& runtime = StandinRuntime::Get();
  MutexLock lock(runtime.mutex);
  std::map<std::string, int> left;
  auto count = [&left](const char* what, size_t number) {
    if (number > 0) left[what] = static_cast<int>(number);
  };
  count("allocations", runtime.allocations.size());
  count("registrations", runtime.registrations.size());
  count("streams", runtime.streams.size());
  count("events", runtime.events.size());
  return left;
}

std::set<int> StandinCudart::Contexts() {
  StandinRuntime& runtime = StandinRuntime::Get();
  MutexLock lock(runtime.mutex);
  return runtime.contexts;
}

}  // namespace spillway
