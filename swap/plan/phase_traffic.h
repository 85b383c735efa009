// The bytes that a steady step moves and updates in each phase, computed from the plan alone.
//
// The phase forward has the operations before the loss, backward the loss and the operations after
// it, and flush the work that can begin only when the last operation has ended. Plain values; any
// thread.
#pragma once

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

enum class Phase : uint8_t { kForward, kBackward, kFlush };
inline constexpr int kPhases = 3;

// "forward", "backward", "flush".
absl::string_view PhaseName(Phase phase);

struct PhaseTraffic {
  uint64_t read_bytes = 0;     // from NVMe
  uint64_t written_bytes = 0;  // to NVMe
  // Memory that the workers touch: rounding reads the sums and writes the gradient; an update reads
  // the gradient, and reads and writes every plane of the state.
  uint64_t update_bytes = 0;
  // Bytes copied to and from a separate device, and memory of the device that it touches itself in
  // rounding and in updates.
  uint64_t to_device_bytes = 0;
  uint64_t to_host_bytes = 0;
  uint64_t device_update_bytes = 0;
};

// The sums over all phases are plan.traffic. Work is counted in the phase in which it begins: an
// immediate update in backward, or in flush if the last operation completes the unit's gradient; a
// deferred update in the next forward; rounding and spilling of a gradient where the gradient is
// complete; a copy of weights to a separate device where operations read them.
std::array<PhaseTraffic, kPhases> TrafficByPhase(const SwapPlan& plan);

// Bytes of a unit that all of the schedule's measures read from NVMe, and bytes of memory that they
// touch.
uint64_t MeasureBytesRead(const SwapPlan& plan, int unit);
uint64_t MeasureTouches(const SwapPlan& plan, int unit);

// Bytes of memory that a unit's update touches (state read and written, rounded gradient read), and
// that rounding its gradient touches (fp32 sums read and gradient written; sums in the run's dtype
// are read for the norm, and copied where the gradient waits in memory).
uint64_t UpdateTouches(const SwapPlan& plan, int unit);
uint64_t RoundTouches(const SwapPlan& plan, int unit);

// Bytes copied between the host and a separate device: of a unit's complete gradient, and of its
// update in either direction (old weights to the host, new weights to their home on the device, and
// every plane of a streamed update). New weights that go to a stay count with that stay. 0 without
// copies.
uint64_t GradientToHostBytes(const SwapPlan& plan, int unit);
uint64_t UpdateToHostBytes(const SwapPlan& plan, int unit);
uint64_t UpdateToDeviceBytes(const SwapPlan& plan, int unit);
// Bytes of a unit's inputs that its forward copies to the host, and its backward copies back.
uint64_t InputCopyBytes(const SwapPlan& plan, int unit);

}  // namespace spillway
