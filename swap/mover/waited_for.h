// Names the resource that a wait was for: the one that was busy for most of it.
#pragma once

#include "io/base/span.h"

namespace spillway {

// How many seconds of a wait each resource was busy.
struct BusyMeanwhile {
  double disk = 0;
  double workers = 0;  // the mean of all
  // A separate device: rounding or updating, and copying in either direction.
  double device_update = 0;
  double copy = 0;
};

// kWaitUpdate where the workers were busy for most of the wait; otherwise the work that a separate
// device did for most of it and for longer than the disk was busy; otherwise kWaitDisk.
inline SpanKind WaitedFor(double seconds, const BusyMeanwhile& busy) {
  if (busy.workers > seconds / 2) return SpanKind::kWaitUpdate;
  const bool updates = busy.device_update > busy.copy;
  const double device = updates ? busy.device_update : busy.copy;
  if (device <= seconds / 2 || device <= busy.disk) return SpanKind::kWaitDisk;
  return updates ? SpanKind::kWaitUpdate : SpanKind::kWaitCopy;
}

}  // namespace spillway
