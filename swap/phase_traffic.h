// What a steady step moves and updates, by phase: from the plan alone.
//
// forward is the ops before the loss, backward the loss and what follows, flush what can
// begin only when the last op has ended. Plain values; any thread.
#pragma once

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "swap/swap_plan.h"

namespace spillway {

enum class Phase : uint8_t { kForward, kBackward, kFlush };
inline constexpr int kPhases = 3;

// "forward", "backward", "flush".
absl::string_view PhaseName(Phase phase);

struct PhaseTraffic {
  uint64_t read_bytes = 0;     // from NVMe
  uint64_t written_bytes = 0;  // to NVMe
  // Memory that the workers touch: rounding reads the fp32 sums and writes the gradient, an
  // update reads that, and reads and writes every plane of the state.
  uint64_t update_bytes = 0;
};

// The sums over phases are plan.traffic. Work counts in the phase in which it begins:
// immediate updates in backward, but those of units whose gradient the last op completes in
// flush; deferred ones in the next forward. Gradients are rounded, and spilled, when whole.
std::array<PhaseTraffic, kPhases> TrafficByPhase(const SwapPlan& plan);

// Bytes of memory that a unit's update touches (its state read and written, the rounded gradient
// read), and that rounding its gradient does (fp32 sums read, the gradient written).
uint64_t UpdateTouches(const SwapPlan& plan, int unit);
uint64_t RoundTouches(const SwapPlan& plan, int unit);

}  // namespace spillway
