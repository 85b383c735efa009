#include "swap/forecast/virtual_device.h"

#include <utility>

#include "io/base/check.h"
#include "swap/plan/phase_traffic.h"

namespace spillway {
namespace {

// No program's memory is there.
char* const kFirstAddress = reinterpret_cast<char*>(uintptr_t{1} << 56);

}  // namespace

VirtualDevice::VirtualDevice(const SwapPlan& plan, const StepClock& clock, VirtualMachine* machine)
    : plan_(plan), clock_(clock), machine_(machine), compute_(*this) {}

absl::StatusOr<char*> VirtualDevice::Allocate(uint64_t) { return kFirstAddress; }

bool VirtualDevice::IsOwn(const void* data) const { return data >= kFirstAddress; }

// Within the device a copy takes no time of the link, and is counted as its update's. What was
// learned of a tile is too little to count.
void VirtualDevice::Copy(StreamId stream, void* to, const void* from, uint64_t bytes) {
  if (bytes <= kPartialBytes || (IsOwn(to) && IsOwn(from))) return;
  const double size = static_cast<double>(bytes);
  if (IsOwn(to)) {
    Occupy(stream, VirtualMachine::kToDevice, clock_.link.SecondsToDevice(size));
  } else {
    Occupy(stream, VirtualMachine::kToHost, clock_.link.SecondsToHost(size));
  }
}

void VirtualDevice::Occupy(StreamId stream, int line, double seconds) {
  Put(stream, {.line = line, .seconds = seconds});
}

void VirtualDevice::Launch(StreamId stream, Kernel kernel) {
  Put(stream, {.kernel = std::move(kernel), .line = VirtualMachine::kDeviceUpdate});
}

DeviceEvent VirtualDevice::Record(StreamId stream) {
  auto event = std::make_shared<Event>();
  Put(stream, {.recorded = event});
  return event;
}

void VirtualDevice::Wait(StreamId stream, const DeviceEvent& event) {
  if (event != nullptr) Put(stream, {.awaited = std::static_pointer_cast<Event>(event)});
}

void VirtualDevice::Notify(StreamId stream, Done done) { Put(stream, {.note = std::move(done)}); }

void VirtualDevice::Put(StreamId stream, Item item) {
  std::deque<Item>& items = streams_[static_cast<int>(stream)].items;
  items.push_back(std::move(item));
  if (items.size() == 1) GoOn(static_cast<int>(stream));
}

void VirtualDevice::GoOn(int number) {
  Stream& stream = streams_[number];
  while (!stream.working && !stream.items.empty()) {
    if (Event* const awaited = stream.items.front().awaited.get();
        awaited != nullptr && !awaited->happened) {
      return awaited->waiting.push_back(number);
    }
    const Item item = std::move(stream.items.front());
    stream.items.pop_front();
    if (item.line >= 0) {
      stream.working = true;
      double seconds = item.seconds;
      if (item.kernel) {
        item.kernel(nullptr).IgnoreError();
        seconds = compute_.seconds;
      }
      machine_->Begin(item.line, seconds, [this, number] {
        streams_[number].working = false;
        GoOn(number);
      });
    }
    if (item.note) item.note(absl::OkStatus());
    if (item.recorded == nullptr) continue;
    item.recorded->happened = true;
    for (int waiting : std::exchange(item.recorded->waiting, {})) GoOn(waiting);
  }
}

absl::Status VirtualDevice::Synchronize() {
  const auto idle = [](const Stream& stream) { return !stream.working && stream.items.empty(); };
  for (const Stream& stream : streams_) {
    while (!idle(stream)) SPILLWAY_CHECK(machine_->Advance());
  }
  return absl::OkStatus();
}

absl::Status VirtualDevice::Compute::RoundOnDevice(void*, int unit, int, uint64_t parameters,
                                                   const float*, void*, GradientPartial*) {
  const double touched = static_cast<double>(RoundTouches(device_.plan_, unit)) * parameters /
                         device_.plan_.layout.PaddedParameters(unit);
  seconds = SecondsAt(device_.clock_.device_update_bytes_per_second, touched);
  return absl::OkStatus();
}

absl::Status VirtualDevice::Compute::UpdateOnDevice(void*, const TileView& tile,
                                                    const UpdateScalars&, uint32_t*) {
  const double touched = static_cast<double>(UpdateTouches(device_.plan_, tile.unit)) *
                         tile.parameters / device_.plan_.layout.PaddedParameters(tile.unit);
  seconds = SecondsAt(device_.clock_.device_update_bytes_per_second, touched);
  return absl::OkStatus();
}

}  // namespace spillway
