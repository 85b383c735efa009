// What a steady step moves and updates, by phase: from the plan alone.
//
// forward is the ops before the loss, backward the loss and what follows, flush what can
// begin only when the last op has ended. Plain values; any thread.
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
  // Memory that the workers touch: rounding reads the sums and writes the gradient, an
  // update reads that, and reads and writes every plane of the state.
  uint64_t update_bytes = 0;
  // A separate device's: what is copied there and from there, and its own memory that it touches
  // in rounding, and in updating what lives there.
  uint64_t to_device_bytes = 0;
  uint64_t to_host_bytes = 0;
  uint64_t device_update_bytes = 0;
};

// The sums over phases are plan.traffic. Work counts in the phase in which it begins:
// immediate updates in backward, but those of units whose gradient the last op completes in
// flush; deferred ones in the next forward. Gradients are rounded, and spilled, when whole.
// Weights are copied to a separate device in the phase of the operations that read them.
std::array<PhaseTraffic, kPhases> TrafficByPhase(const SwapPlan& plan);

// What is read of a unit to be measured, as often as the schedule says, and of memory with it.
uint64_t MeasureBytesRead(const SwapPlan& plan, int unit);
uint64_t MeasureTouches(const SwapPlan& plan, int unit);

// Bytes of memory that a unit's update touches (its state read and written, the rounded gradient
// read), and that rounding its gradient does (fp32 sums read, the gradient written; sums that are
// rounded are read for the norm, and copied where the gradient waits in memory).
uint64_t UpdateTouches(const SwapPlan& plan, int unit);
uint64_t RoundTouches(const SwapPlan& plan, int unit);

// Bytes that a unit's gradient takes to the host when it is complete, and that its update copies
// besides: the old weights from a separate device, the new ones to it where they live there (to
// a stay they go as part of the stay's own bytes); all that is streamed. 0 where nothing is copied.
uint64_t GradientToHostBytes(const SwapPlan& plan, int unit);
uint64_t UpdateToHostBytes(const SwapPlan& plan, int unit);
uint64_t UpdateToDeviceBytes(const SwapPlan& plan, int unit);
// Bytes of a unit's inputs that its forward takes to the host, and its backward brings again.
uint64_t InputCopyBytes(const SwapPlan& plan, int unit);

}  // namespace spillway
