#include "swap/phase_traffic.h"

#include <algorithm>

namespace spillway {

absl::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kFlush:
      return "flush";
  }
  return "?";
}

uint64_t UpdateTouches(const SwapPlan& plan, int unit) {
  const StateLayout& layout = plan.layout;
  return layout.PaddedParameters(unit) * (2 * layout.PlaneRangeBytes(0, layout.num_planes()) +
                                          layout.gradient_bytes_per_parameter());
}

uint64_t RoundTouches(const SwapPlan& plan, int unit) {
  const StateLayout& layout = plan.layout;
  return layout.PaddedParameters(unit) * (sizeof(float) + layout.gradient_bytes_per_parameter());
}

std::array<PhaseTraffic, kPhases> TrafficByPhase(const SwapPlan& plan) {
  std::array<PhaseTraffic, kPhases> phases;
  const auto at = [&](Phase phase) -> PhaseTraffic& { return phases[static_cast<int>(phase)]; };
  const auto& ops = plan.schedule.ops;
  const int last_op = static_cast<int>(ops.size()) - 1;
  const auto loss = std::find_if(ops.begin(), ops.end(),
                                 [](const StepOp& op) { return op.kind == OpKind::kLoss; });
  const int loss_op = static_cast<int>(loss - ops.begin());
  for (const WeightStay& stay : plan.weight_stays) {
    if (!plan.FetchedFromStore(stay)) continue;
    at(stay.first_op < loss_op ? Phase::kForward : Phase::kBackward).read_bytes += stay.span.bytes;
  }

  for (const ActivationStay& stay : plan.activation_stays) {
    PhaseTraffic& phase = at(stay.loads ? Phase::kBackward : Phase::kForward);
    (stay.loads ? phase.read_bytes : phase.written_bytes) += stay.span.bytes;
  }

  for (const GradientStay& stay : plan.gradient_stays) {
    const UnitPlacement& placement = plan.placements[stay.unit];
    const uint64_t parameters = plan.layout.PaddedParameters(stay.unit);
    const uint64_t gradient = parameters * plan.layout.gradient_bytes_per_parameter();
    const bool deferred = plan.deferred[stay.unit];
    const Phase whole = stay.last_op == last_op ? Phase::kFlush : Phase::kBackward;
    PhaseTraffic& update = at(deferred ? Phase::kForward : whole);
    update.read_bytes += parameters * plan.UpdateBytesRead(stay.unit);
    update.written_bytes += parameters * plan.UpdateBytesWritten(stay.unit);
    update.update_bytes += UpdateTouches(plan, stay.unit);
    at(whole).update_bytes += RoundTouches(plan, stay.unit);
    if (deferred && placement.gradient == Tier::kNvme) {
      at(whole).written_bytes += gradient;
      update.read_bytes += gradient;
    }
  }
  return phases;
}

}  // namespace spillway
