// The last uses of the addresses of a device's memory, as events in the device's streams.
//
// The mover knows that an operation has been put into a stream, and not that it is done. So the
// next user of an address does not wait on the host: it waits, in its own stream, for the events
// that the last user left here.
#pragma once

#include <vector>

#include "swap/device/device.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// One thread.
class AddressUses {
 public:
  // From now on a user of `span` waits for `events`. REQUIRES: the last user waited for Over(span);
  // so older uses of the same addresses can be forgotten.
  void Note(const ArenaSpan& span, std::vector<DeviceEvent> events);

  // The events that must have happened before `span` may be written.
  std::vector<DeviceEvent> Over(const ArenaSpan& span) const;

 private:
  struct Use {
    ArenaSpan span;
    std::vector<DeviceEvent> events;
  };
  std::vector<Use> uses_;  // no more than the plan has spans
};

}  // namespace spillway
