// What a wait was for: of the things that were busy meanwhile, the one that held it up.
#pragma once

#include "io/base/span.h"

namespace spillway {

// Of a wait's time.
struct BusyMeanwhile {
  double disk = 0;
  double workers = 0;  // the mean of all
  // Of a discrete device: that it rounded or updated, and that something was copied, either way.
  double device_update = 0;
  double copy = 0;
};

// kWaitUpdate where the workers were busy for most of it; else what a discrete device did for most
// of it and for longer than anything else; else kWaitDisk.
inline SpanKind WaitedFor(double seconds, const BusyMeanwhile& busy) {
  if (busy.workers > seconds / 2) return SpanKind::kWaitUpdate;
  const bool updates = busy.device_update > busy.copy;
  const double device = updates ? busy.device_update : busy.copy;
  if (device <= seconds / 2 || device <= busy.disk) return SpanKind::kWaitDisk;
  return updates ? SpanKind::kWaitUpdate : SpanKind::kWaitCopy;
}

}  // namespace spillway
