#include "swap/plan/phase_traffic.h"

#include <algorithm>

namespace spillway {
namespace {

uint64_t PlaneBytes(const SwapPlan& plan, int unit, int plane) {
  return plan.layout.UnitPlanesBytes(unit, plane, plane + 1);
}

uint64_t GradientBytes(const SwapPlan& plan, int unit) {
  return plan.layout.PaddedParameters(unit) * plan.layout.gradient_bytes_per_parameter();
}

}  // namespace

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
  return 2 * layout.UnitBytes(unit) + GradientBytes(plan, unit);
}

uint64_t MeasureBytesRead(const SwapPlan& plan, int unit) {
  const MeasurePasses& measures = plan.schedule.measures;
  const bool spilled = plan.placements[unit].gradient == Tier::kNvme;
  return measures.states * plan.UpdateBytesRead(unit) +
         (spilled ? measures.all() * GradientBytes(plan, unit) : 0);
}

uint64_t MeasureTouches(const SwapPlan& plan, int unit) {
  const MeasurePasses& measures = plan.schedule.measures;
  return measures.states * plan.layout.UnitBytes(unit) + measures.all() * GradientBytes(plan, unit);
}

// By the host: weights that live on a separate device come for it.
uint64_t MeasureToHostBytes(const SwapPlan& plan, int unit) {
  const int states = plan.schedule.measures.states;
  return plan.HomeOnDevice(unit, 0) ? states * PlaneBytes(plan, unit, 0) : 0;
}

uint64_t RoundTouches(const SwapPlan& plan, int unit) {
  const uint64_t parameters = plan.layout.PaddedParameters(unit);
  const uint64_t gradient = plan.layout.gradient_bytes_per_parameter();
  if (!plan.rounded_sums[unit]) return parameters * (sizeof(float) + gradient);
  if (!plan.deferred[unit]) return 0;  // the update takes them as they are
  return parameters * gradient * (plan.placements[unit].gradient == Tier::kNvme ? 1 : 2);
}

uint64_t GradientToHostBytes(const SwapPlan& plan, int unit) {
  if (!plan.separate_device || plan.UpdatesOnDevice(unit)) return 0;
  if (plan.streams_update[unit] && !plan.deferred[unit]) return 0;
  return GradientBytes(plan, unit);
}

uint64_t UpdateToHostBytes(const SwapPlan& plan, int unit) {
  if (plan.streams_update[unit]) {
    uint64_t bytes = 0;
    for (int plane = 0; plane < plan.layout.NumPlanes(unit); ++plane) {
      if (plan.StreamsOut(unit, plane)) bytes += PlaneBytes(plan, unit, plane);
    }
    return bytes;
  }
  if (plan.separate_device && plan.weight_at_hand[unit]) return PlaneBytes(plan, unit, 0);
  return UpdateToDeviceBytes(plan, unit);
}

uint64_t UpdateToDeviceBytes(const SwapPlan& plan, int unit) {
  if (plan.streams_update[unit]) {
    uint64_t bytes = plan.deferred[unit] ? GradientToHostBytes(plan, unit) : 0;
    for (int plane = 0; plane < plan.layout.NumPlanes(unit); ++plane) {
      if (plan.StreamsIn(unit, plane)) bytes += PlaneBytes(plan, unit, plane);
    }
    return bytes;
  }
  if (!plan.HomeOnDevice(unit, 0) || plan.UpdatesOnDevice(unit)) return 0;
  return PlaneBytes(plan, unit, 0);
}

uint64_t InputCopyBytes(const SwapPlan& plan, int unit) {
  const bool moves = plan.separate_device && plan.activations[unit] != Tier::kDevice;
  return moves ? plan.activation_bytes[unit] : 0;
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
    PhaseTraffic& phase = at(stay.first_op < loss_op ? Phase::kForward : Phase::kBackward);
    if (plan.FetchedFromStore(stay)) phase.read_bytes += stay.span.bytes;
    if (plan.CopiedToDevice(stay)) phase.to_device_bytes += stay.span.bytes;
  }

  for (const ActivationStay& stay : plan.activation_stays) {
    PhaseTraffic& phase = at(stay.loads ? Phase::kBackward : Phase::kForward);
    (stay.loads ? phase.read_bytes : phase.written_bytes) += stay.span.bytes;
  }
  for (const StepOp& op : ops) {
    if (op.inputs_for_ops == 0) continue;
    if (op.kind == OpKind::kForward) {
      at(Phase::kForward).to_host_bytes += InputCopyBytes(plan, op.unit);
    } else if (op.kind == OpKind::kBackward) {
      at(Phase::kBackward).to_device_bytes += InputCopyBytes(plan, op.unit);
    }
  }

  for (const GradientStay& stay : plan.gradient_stays) {
    const UnitPlacement& placement = plan.placements[stay.unit];
    const uint64_t gradient = GradientBytes(plan, stay.unit);
    const bool deferred = plan.deferred[stay.unit];
    const Phase whole = stay.last_op == last_op ? Phase::kFlush : Phase::kBackward;
    PhaseTraffic& update = at(deferred ? Phase::kForward : whole);
    update.read_bytes += plan.UpdateBytesRead(stay.unit);
    update.written_bytes += plan.UpdateBytesWritten(stay.unit);
    (plan.DeviceUpdates(stay.unit) ? update.device_update_bytes : update.update_bytes) +=
        UpdateTouches(plan, stay.unit);
    (plan.separate_device ? at(whole).device_update_bytes : at(whole).update_bytes) +=
        RoundTouches(plan, stay.unit);
    at(whole).to_host_bytes += GradientToHostBytes(plan, stay.unit);
    at(Phase::kFlush).read_bytes += MeasureBytesRead(plan, stay.unit);
    at(Phase::kFlush).update_bytes += MeasureTouches(plan, stay.unit);
    at(Phase::kFlush).to_host_bytes += MeasureToHostBytes(plan, stay.unit);
    update.to_host_bytes += UpdateToHostBytes(plan, stay.unit);
    update.to_device_bytes += UpdateToDeviceBytes(plan, stay.unit);
    if (deferred && placement.gradient == Tier::kNvme) {
      at(whole).written_bytes += gradient;
      update.read_bytes += gradient;
    }
  }
  return phases;
}

}  // namespace spillway
