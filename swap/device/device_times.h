// When a separate device computed, updated, waited and copied: what its streams tell, whatever the
// host was doing meanwhile. The host puts work into the streams long before it is done, so its own
// clock knows nothing of that.
//
// A note stands in its stream before and after each thing that is timed, and calls what is here
// from a thread of the device's; the notes of one stream come in order.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "io/base/mutex.h"
#include "io/base/trace.h"

namespace spillway {

// Of one direction of a link: what was copied, and for how long something was.
struct CopyTime {
  uint64_t bytes = 0;
  double seconds = 0;
};

// Since the start.
struct DeviceSeconds {
  CopyTime to_device;
  CopyTime to_host;
  double copying = 0;   // either way, or both at once
  double updating = 0;  // rounding and updating tiles
  double computing = 0;
  // That the compute stream had nothing to do: since an operation waited to be granted, by what
  // it waited for; and since what it uses was still being copied, or made by an update there,
  // whichever took longer.
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

  // With what is under way.
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
  // Of the operation that the compute stream has come to.
  Grant grant_ ABSL_GUARDED_BY(mutex_);
  int64_t came_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  double copying_then_ ABSL_GUARDED_BY(mutex_) = 0;
  double updating_then_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t op_began_ns_ ABSL_GUARDED_BY(mutex_) = -1;
  int64_t op_ended_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // of the one before
};

}  // namespace spillway
