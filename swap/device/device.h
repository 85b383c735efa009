// A separate device, which computes in memory of its own: the seam between the mover and a GPU.
//
// Work is put into streams and done later, each stream's in order. Streams run beside each
// other; only events order one after another: a stream that waits for an event goes on once
// the event's own stream has come to where it was recorded. The host never waits but in
// Synchronize and BeginComputing, and learns by Notify that something has happened.
//
// Implementations: swap/device/cuda/cuda_device.h, and tests/device/test_device.h, whose memory is
// the host's and whose streams are slow on purpose. Where compute uses the host's memory there is
// no Device, and nothing is copied.
//
// Every method may be called from any thread. An error (a copy refused, a kernel that faulted)
// breaks the device: from then on every Notify and Synchronize returns the first error, and no work
// is done.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace spillway {

enum class StreamId : uint8_t {
  kCompute,   // a step's operations
  kToDevice,  // copies from the host, and kernels that work on what they bring
  kToHost,    // copies to the host, and kernels that make what they take
  kExchange,  // with several ranks: what comes from the others, and what goes there
};
inline constexpr int kStreams = 4;

// A place in a stream. Shared; the device outlives it.
class DeviceEventState {
 public:
  virtual ~DeviceEventState() = default;
};
using DeviceEvent = std::shared_ptr<DeviceEventState>;

class Device {
 public:
  // REQUIRES: nothing is under way (Synchronize), all memory has been given back.
  virtual ~Device() = default;

  // For people: "NVIDIA H200 (device 0)".
  virtual std::string name() const = 0;

  // --- Memory.
  // At least 256-byte aligned, contents undefined. kResourceExhausted with what is free.
  virtual absl::StatusOr<char*> Allocate(uint64_t bytes) = 0;
  virtual void Free(char* data) = 0;
  // Pins host memory (page-aligned), so that copies run beside the host and at the link's rate.
  virtual absl::Status RegisterHost(char* data, uint64_t bytes) = 0;
  virtual void UnregisterHost(char* data) = 0;

  // --- Work. None of these waits.
  // Between registered host memory and this device's memory, either way, or within the latter.
  virtual void Copy(StreamId stream, void* to, const void* from, uint64_t bytes) = 0;
  // A device with streams of its own calls `kernel` at once with the native stream
  // (cudaStream_t), into which it launches; another calls it with null when the stream comes to
  // it, and the arithmetic is done by then. An error breaks the device.
  using Kernel = std::function<absl::Status(void* native_stream)>;
  virtual void Launch(StreamId stream, Kernel kernel) = 0;
  // An event that happens when all work put into `stream` so far is done.
  virtual DeviceEvent Record(StreamId stream) = 0;
  // Work put into `stream` from now on starts after `event`. Null: there is nothing to wait for.
  virtual void Wait(StreamId stream, const DeviceEvent& event) = 0;
  // Calls `done` on a thread of the device's once all that was put into `stream` so far is done,
  // or with the error that broke the device. Notes of a stream come in order. `done` must not
  // block, nor call the device.
  using Done = std::function<void(const absl::Status&)>;
  virtual void Notify(StreamId stream, Done done) = 0;
  // The contents of these bytes of device memory are not needed once all of `after` have happened.
  // The next user of the bytes waits for the returned event, too; null: the device does nothing.
  virtual DeviceEvent Discard(char* data, uint64_t bytes, const std::vector<DeviceEvent>& after) {
    return nullptr;
  }

  // --- The thread that takes operations.
  // Before an operation of `stream`. Where operations run on the calling thread instead of in that
  // stream, waits until it has come here.
  virtual void BeginComputing(StreamId stream) {}
  // The stream that operations run in (cudaStream_t); null where they run on the calling thread.
  virtual void* native_compute_stream() { return nullptr; }

  // Waits until every stream is done. The error that broke the device, if one did. Afterwards no
  // `done` is called any more but for later work.
  virtual absl::Status Synchronize() = 0;
};

// Waits until all that was put into `stream` so far is done. The error that broke the device, or
// kDeadlineExceeded once `seconds` have passed; then it goes on all the same.
absl::Status AwaitStream(Device& device, StreamId stream,
                         double seconds = std::numeric_limits<double>::infinity());

}  // namespace spillway
