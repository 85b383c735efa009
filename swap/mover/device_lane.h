// The mover's side of a device's streams: copies, kernels, events between them, and the begins and
// ends of operations.
//
// The mover never waits for the device. An operation is granted when the copies and kernels that
// make its weights have been put into the streams, where the compute stream waits for them.
// Addresses may be used again when the operations that used them have been put into the stream,
// where the next user waits for them. The mover is notified only of work that the host waits for: a
// gradient that a worker takes, a buffer that is to be used again.
//
// Where compute uses the host's memory there is nothing to copy and nothing to wait for: then the
// lane is the empty one, which only records how long operations waited on the host, and for what.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "io/base/check.h"
#include "io/base/trace.h"
#include "swap/device/device.h"
#include "swap/device/device_times.h"
#include "swap/mover/mover_record.h"
#include "swap/mover/mover_thread.h"
#include "swap/plan/step_schedule.h"

namespace spillway {

// The mover's thread, where a method does not say otherwise. An error that breaks the device
// arrives at the next WhenDone, and is the mover's failure. This class itself is the empty lane.
class DeviceLane {
 public:
  // All outlive the lane. `device` null: the empty lane. `trace` may be null.
  static std::unique_ptr<DeviceLane> Create(Device* device, StreamId ops_stream,
                                            MoverThread* thread, MoverRecord* record, Trace* trace);
  virtual ~DeviceLane() = default;

  virtual bool separate_device() const { return false; }

  // --- Operations. Each comes, begins when its weights and inputs are there, and ends.
  // `waited_for`: the resource that the host waited for from `wait_began_seconds` until now. In the
  // empty lane that is the operation's whole wait.
  virtual void OpComes(const StepOp& op, SpanKind waited_for, double wait_began_seconds);
  // A buffer that the operation uses is filled when `event` happens.
  virtual void OpWaitsFor(const DeviceEvent& event) {}
  virtual void OpBegins() {}
  // The whole operation has been put into its stream.
  virtual void OpEnds() {}
  // The event after the operation that ended last; null in the empty lane.
  virtual DeviceEvent op_done() const { return nullptr; }
  virtual StreamId ops_stream() const { return StreamId::kCompute; }
  // Called by the thread that takes operations, before it computes one.
  virtual void BeginComputing() {}
  // Counts an operation's inputs, which the compute side copies itself, in its own stream.
  virtual void CountInputs(OpKind kind, uint64_t bytes) {}

  // --- Streams.
  virtual DeviceEvent Record(StreamId stream) { return nullptr; }
  virtual void Wait(StreamId stream, const DeviceEvent& event) {}
  virtual DeviceEvent Discard(char* data, uint64_t bytes, const std::vector<DeviceEvent>& after) {
    return nullptr;
  }
  // The methods below are never called on the empty lane.
  // Calls `then` on the mover's thread when all that `stream` has so far is done, or has failed.
  using Done = std::function<void(absl::Status)>;
  virtual void WhenDone(StreamId stream, Done then) { NoDevice(); }
  // Copies that are counted, timed and traced: in kToDevice and in kToHost.
  virtual void CopyToDevice(int unit, char* to, const char* from, uint64_t bytes) { NoDevice(); }
  virtual void CopyToHost(int unit, char* to, const char* from, uint64_t bytes) { NoDevice(); }
  // Work in kToHost: a copy within the device; a copy of a few bytes, which is counted and not
  // timed; and the device's own work on a tile.
  virtual void CopyWithin(char* to, const char* from, uint64_t bytes) { NoDevice(); }
  virtual void CopyWord(char* to, const char* from, uint64_t bytes) { NoDevice(); }
  virtual void Launch(int unit, int tile, Device::Kernel kernel) { NoDevice(); }

  // --- Any thread.
  virtual DeviceSeconds seconds() const { return {}; }
  // Sets the counters of `stats` that only the streams know.
  virtual void AddTo(SwapStats* stats) const {}
  // Waits until every stream is done.
  virtual absl::Status Synchronize() { return absl::OkStatus(); }

 protected:
  DeviceLane(MoverRecord* record, Trace* waits) : record_(record), waits_(waits) {}

  MoverRecord* const record_;

 private:
  static void NoDevice() { SPILLWAY_CHECK(false && "there is no device to copy to"); }

  Trace* const waits_;  // of operations; may be null
};

}  // namespace spillway
