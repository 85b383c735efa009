#include "swap/device/address_uses.h"

#include <utility>

namespace spillway {

void AddressUses::Note(const ArenaSpan& span, std::vector<DeviceEvent> events) {
  std::erase_if(uses_, [&](const Use& use) {
    return use.span.tier == span.tier && span.offset <= use.span.offset &&
           use.span.offset + use.span.bytes <= span.offset + span.bytes;
  });
  uses_.push_back({span, std::move(events)});
}

std::vector<DeviceEvent> AddressUses::Over(const ArenaSpan& span) const {
  std::vector<DeviceEvent> events;
  for (const Use& use : uses_) {
    if (use.span.Overlaps(span)) events.insert(events.end(), use.events.begin(), use.events.end());
  }
  return events;
}

}  // namespace spillway
