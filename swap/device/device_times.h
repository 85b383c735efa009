// Measures when a separate device computed, updated, waited and copied. The host puts work into the
// streams long before it is done, so the host's own clock cannot tell.
//
// A note (Device::Notify) stands in the stream before and after each piece of work that is timed.
// It calls the methods below on a thread of the device; the notes of one stream come in order.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "io/base/mutex.h"
#include "io/base/trace.h"

namespace spillway {

// Copies in one direction of the link: their bytes, and the time during which any was under way.
struct CopyTime {
  uint64_t bytes = 0;
  double seconds = 0;
};

// Times since the start.
struct DeviceSeconds {
  CopyTime to_device;
  CopyTime to_host;
  double copying = 0;   // either way, or both at once
  double updating = 0;  // rounding and updating tiles
  double computing = 0;
  // The time during which the compute stream was idle: by what an operation waited for before it
  // was granted; and, after that, by whether its weights were still being copied or still being
  // made by an update on the device (the longer of the two counts).
  double stalled_disk = 0;
  double stalled_update = 0;
  double stalled_commit = 0;
  double stalled_copy = 0;
};

// Any thread.
class DeviceTimes {
 public:
  // `trace` may be null; it gets a span of each copy, update, operation and wait.
  explicit DeviceTimes(Trace* trace) : trace_(trace) {}

  // In kToDevice or kToHost, before and after a copy.
  void CopyBegins(SpanKind direction, int64_t now_ns);
  void CopyEnds(SpanKind direction, int unit, uint64_t bytes, int64_t now_ns);

  // In kToHost, before and after its work on a tile.
  void UpdateBegins(int64_t now_ns);
  void UpdateEnds(int unit, int tile, int64_t now_ns);

  // In kCompute: before what an operation waits for there, after that, and after the operation.
  struct Grant {
    SpanKind op = SpanKind::kForward;
    int unit = 0;
    SpanKind waited_for = SpanKind::kWaitDisk;  // one of the waits, of the host for this grant
    int64_t wait_began_ns = 0;
    int64_t granted_ns = 0;
  };
  void OpComes(const Grant& grant, int64_t now_ns);
  void OpBegins(int64_t now_ns);
  void OpEnds(int64_t now_ns);

  // The times up to now, with the work that is under way.
  DeviceSeconds At(int64_t now_ns) const;

 private:
  struct Direction {
    CopyTime done;
    int64_t begin_ns = -1;  // of the copy under way
  };
  void Pass(int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  double Copying(int64_t now_ns) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  double Updating(int64_t now_ns) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecordWait(SpanKind wait, int64_t begin_ns, int64_t end_ns) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Trace* const trace_;
  mutable Mutex mutex_;
  Direction to_device_ ABSL_GUARDED_BY(mutex_);
  Direction to_host_ ABSL_GUARDED_BY(mutex_);
  int64_t passed_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // up to where seconds_.copying counts
  int64_t update_began_ns_ ABSL_GUARDED_BY(mutex_) = -1;
  DeviceSeconds seconds_ ABSL_GUARDED_BY(mutex_);
  // The operation that the compute stream works on, and how much had been copied and updated when
  // the stream came to it.
  Grant grant_ ABSL_GUARDED_BY(mutex_);
  int64_t came_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  double copying_then_ ABSL_GUARDED_BY(mutex_) = 0;
  double updating_then_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t op_began_ns_ ABSL_GUARDED_BY(mutex_) = -1;
  int64_t op_ended_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // of the one before
};

}  // namespace spillway
