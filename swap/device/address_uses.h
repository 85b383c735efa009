// Who used which addresses of a device's memory last, in terms of its streams.
//
// The mover knows that an operation has been given to the device, and not that it is done. So
// what is to use an address next does not wait on the host: it waits, in its stream, for the
// events that its last user left here.
#pragma once

#include <vector>

#include "swap/device/device.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// One thread.
class AddressUses {
 public:
  // Those who use `span` from now on wait for `events`. REQUIRES: who used it until now waited
  // for Over(span), so that older uses of the same addresses need not be remembered.
  void Note(const ArenaSpan& span, std::vector<DeviceEvent> events);

  // What must have happened before `span` may be written.
  std::vector<DeviceEvent> Over(const ArenaSpan& span) const;

 private:
  struct Use {
    ArenaSpan span;
    std::vector<DeviceEvent> events;
  };
  std::vector<Use> uses_;  // no more than the plan has spans
};

}  // namespace spillway
