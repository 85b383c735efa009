#include "swap/plan/plan_builder.h"

#include <algorithm>

#include "io/base/check.h"
#include "swap/plan/check_plan.h"
#include "swap/plan/phase_traffic.h"

namespace spillway {
namespace {

uint64_t RoundUpToPage(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

PlanBuilder::PlanBuilder(const PlanRequest& request)
    : request_(request),
      layout_(request.layout),
      uses_(layout_.num_units()),
      gradient_ops_(layout_.num_units()),
      forward_op_(layout_.num_units(), -1),
      backward_op_(layout_.num_units(), -1),
      large_(layout_, request.schedule) {
  CheckRequest(request);
  for (int op = 0; op < num_ops(); ++op) {
    const StepOp& step_op = request.schedule.ops[op];
    for (int unit : step_op.weights) uses_[unit].push_back(op);
    for (int unit : step_op.gradients) gradient_ops_[unit].push_back(op);
    if (step_op.inputs_for_ops == 0) continue;
    if (step_op.kind == OpKind::kForward) forward_op_[step_op.unit] = op;
    if (step_op.kind == OpKind::kBackward) backward_op_[step_op.unit] = op;
  }
}

bool PlanBuilder::training() const {
  return std::any_of(gradient_ops_.begin(), gradient_ops_.end(),
                     [](const std::vector<int>& ops) { return !ops.empty(); });
}

int PlanBuilder::LookaheadAt(const Draft& draft, int op) const {
  const bool forward = request_.schedule.ops[op].kind == OpKind::kForward;
  const int anywhere =
      forward ? std::max(draft.lookahead, draft.forward_lookahead) : draft.lookahead;
  return large_.any() ? std::max(anywhere, std::min(draft.apart_lookahead, large_.Since(op)))
                      : anywhere;
}

int PlanBuilder::TailAt(const Draft& draft, int op) const {
  return large_.any() ? std::max(draft.tail, std::min(draft.apart_tail, large_.Until(op)))
                      : draft.tail;
}

Tier PlanBuilder::BaseTier(TierChoice choice) const {
  switch (choice) {
    case TierChoice::kDevice:
      return Tier::kDevice;
    case TierChoice::kHost:
      return Tier::kHost;
    case TierChoice::kNvme:
      return Tier::kNvme;
    case TierChoice::kAuto:
      break;
  }
  return request_.has_storage ? Tier::kNvme : Tier::kHost;
}

absl::StatusOr<Draft> PlanBuilder::BaseDraft() const {
  UnitPlacement placement;
  placement.weight = BaseTier(request_.weights);
  placement.optimizer = BaseTier(request_.optimizer);
  placement.gradient = placement.optimizer;
  const Tier activation = BaseTier(request_.activations);
  if (request_.separate_device && placement.optimizer == Tier::kDevice && !device_may_update()) {
    return absl::InvalidArgumentError(
        "this optimizer measures all tensors before the first update, which a GPU does not do: its "
        "state cannot live on the device: give --offload-optimizer cpu or nvme");
  }
  if (request_.separate_device && placement.optimizer == Tier::kDevice &&
      placement.weight != Tier::kDevice) {
    return absl::InvalidArgumentError(
        "optimizer state on the device needs the weights there, too: give --offload-param none as "
        "well, or --offload-optimizer cpu or nvme");
  }
  if (!request_.has_storage && (placement.weight == Tier::kNvme ||
                                placement.optimizer == Tier::kNvme || activation == Tier::kNvme)) {
    return absl::InvalidArgumentError(
        "offloading to NVMe needs a place for it: give --swap PATH (or nvme_path in the config)");
  }
  Draft draft;
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    SetNvmePlanes(unit, draft.placements.emplace_back(placement));
    draft.activations.push_back(ActivationBytes(unit) > 0 ? activation : Tier::kDevice);
  }
  draft.deferred.resize(layout_.num_units());
  draft.streamed.resize(layout_.num_units());
  draft.tile_buffers = 2;
  return draft;
}

uint64_t PlanBuilder::ActivationBytes(int unit) const {
  if (request_.activation_bytes.empty() || backward_op_[unit] < 0) return 0;
  return RoundUpToPage(request_.activation_bytes[unit]);
}

void PlanBuilder::SetNvmePlanes(int unit, UnitPlacement& placement) const {
  const int planes = layout_.NumPlanes(unit);
  const bool weight = placement.weight == Tier::kNvme;
  const bool optimizer = placement.optimizer == Tier::kNvme && planes > 1;
  placement.first_nvme_plane = weight ? 0 : (optimizer ? 1 : 0);
  placement.last_nvme_plane = optimizer ? planes : (weight ? 1 : 0);
}

// Cuts the uses of every unit that lives in the store into stays.
std::vector<WeightStay> PlanBuilder::WeightStays(const Draft& draft,
                                                 std::vector<Lifetime>* lifetimes) const {
  std::vector<WeightStay> stays;
  const int turn_unit = TurnUnit(draft);
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    // The compute thread reads weights from their home, except on a separate device.
    const bool from_store = draft.placements[unit].weight == Tier::kNvme;
    const bool on_device = draft.placements[unit].weight == Tier::kDevice;
    if (!from_store && (on_device || !request_.separate_device)) continue;
    // Its update takes weights from a stay, and puts new ones there.
    const bool updated_in_stays = from_store || draft.streamed[unit];
    const size_t first_stay = stays.size();
    const std::vector<int>& uses = uses_[unit];
    const bool kept = draft.kept_over_loss.contains(unit);
    for (size_t i = 0; i < uses.size();) {
      WeightStay stay;
      stay.unit = unit;
      stay.first_op = stay.last_op = uses[i];
      while (++i < uses.size() && (kept || uses[i] - stay.last_op <= 1)) stay.last_op = uses[i];
      stay.span.tier = request_.separate_device ? Tier::kDevice : Tier::kHost;
      stay.span.bytes = layout_.UnitPlanesBytes(unit, 0, 1);
      Lifetime lifetime{stay.first_op - LookaheadAt(draft, stay.first_op), stay.last_op};
      // The stay must have all the weights that the update changes.
      const std::vector<int>& added = gradient_ops_[unit];
      stay.feeds_update = updated_in_stays && !Deferred(draft, unit) && !added.empty() &&
                          added.back() == stay.last_op;
      if (stay.feeds_update) lifetime.last += TailAt(draft, stay.last_op);
      if (stay.first_op == uses[0] && training()) {
        // A deferred update waits for the end of the step before.
        if (Deferred(draft, unit)) lifetime.first = std::max(lifetime.first, 0);
        const int updated = added.empty() ? 0 : added.back() - num_ops();  // in the step before
        if (updated_in_stays && draft.carried.contains(unit)) {
          lifetime.first = std::min(lifetime.first, updated);
        }
        stay.filled_by_update = updated_in_stays && !added.empty() &&
                                (Deferred(draft, unit) || lifetime.first <= updated + 1);
      }
      stay.lead_ops = stay.first_op - lifetime.first;
      stays.push_back(stay);
      lifetimes->push_back(lifetime);
    }
    // One buffer from the last stay of a step over the turn to the first of the next.
    const bool over_turn = draft.carried.contains(unit) || unit == turn_unit;
    if (over_turn && stays.size() > first_stay + 1 && stays.back().feeds_update) {
      WeightStay& next = stays[first_stay];
      Lifetime& whole = (*lifetimes)[first_stay];
      next.takes_over = next.filled_by_update = true;
      next.lead_ops = next.first_op + num_ops() - gradient_ops_[unit].back();
      whole.first = std::min(whole.first, lifetimes->back().first - num_ops());
    }
  }
  return stays;
}

std::vector<ActivationStay> PlanBuilder::ActivationStays(const Draft& draft,
                                                         std::vector<Lifetime>* lifetimes) const {
  std::vector<ActivationStay> stays;
  const auto last = [&](int op) { return op + request_.schedule.ops[op].inputs_for_ops - 1; };
  const auto add = [&](int unit, bool loads, int op, const Lifetime& lifetime) {
    stays.push_back(
        {unit, op, last(op), loads, op - lifetime.first, {Tier::kHost, 0, ActivationBytes(unit)}});
    lifetimes->push_back(lifetime);
  };
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    if (draft.activations[unit] != Tier::kNvme) continue;
    const int forward = forward_op_[unit], backward = backward_op_[unit];
    SPILLWAY_CHECK(forward >= 0 && forward < backward);
    const int saved = last(forward);
    add(unit, false, forward, {forward, saved + TailAt(draft, saved)});
    add(unit, true, backward,
        {std::max(backward - LookaheadAt(draft, backward), saved + 1), last(backward)});
  }
  return stays;
}

int PlanBuilder::TurnUnit(const Draft& draft) const {
  int found = -1;
  if (!training()) return found;
  for (int unit : request_.schedule.ops.back().gradients) {
    if (gradient_ops_[unit].back() != num_ops() - 1 || Deferred(draft, unit)) continue;
    if (!draft.placements[unit].any_nvme()) continue;
    if (found < 0 || layout_.NumTiles(unit) > layout_.NumTiles(found)) found = unit;
  }
  return found;
}

std::vector<TurnStay> PlanBuilder::TurnStays(const Draft& draft, uint64_t tile_bytes,
                                             std::vector<Lifetime>* lifetimes) const {
  constexpr int kLead = 2, kTail = 2, kTilesEach = 8;
  std::vector<TurnStay> stays;
  const int unit = TurnUnit(draft);
  if (unit < 0 || num_ops() <= kLead + kTail + 1) return stays;
  const int last_op = num_ops() - 1;
  for (int left = std::min(draft.turn_tiles, layout_.NumTiles(unit)); left > 0;) {
    const int tiles = std::min(left, kTilesEach);
    stays.push_back({last_op, kLead, tiles, {Tier::kHost, 0, tiles * tile_bytes}});
    lifetimes->push_back({last_op - kLead, last_op + kTail});
    left -= tiles;
  }
  return stays;
}

SwapPlan PlanBuilder::Build(const Draft& draft) const {
  SwapPlan plan;
  plan.layout = layout_;
  plan.schedule = request_.schedule;
  PlaceBuffers(draft, plan);
  for (const PhaseTraffic& phase : TrafficByPhase(plan)) {
    plan.traffic.read_bytes += phase.read_bytes;
    plan.traffic.written_bytes += phase.written_bytes;
    plan.traffic.to_device_bytes += phase.to_device_bytes;
    plan.traffic.to_host_bytes += phase.to_host_bytes;
  }
  return plan;
}

BudgetPair PlanBuilder::Measure(const Draft& draft) const {
  SwapPlan plan;
  PlaceBuffers(draft, plan);
  return {plan.host_arena_bytes, plan.device_bytes()};
}

void PlanBuilder::PlaceBuffers(const Draft& draft, SwapPlan& plan) const {
  plan.placements = draft.placements;
  plan.lookahead = draft.lookahead;
  plan.forward_lookahead = std::max(draft.lookahead, draft.forward_lookahead);
  plan.apart_lookahead = std::max(draft.lookahead, draft.apart_lookahead);
  plan.activations = draft.activations;

  uint64_t next[2] = {0, 0};  // by tier: kDevice, kHost
  auto take = [&](Tier tier, uint64_t bytes) {
    ArenaSpan span{tier, next[static_cast<int>(tier)], bytes};
    next[static_cast<int>(tier)] += RoundUpToPage(bytes);
    return span;
  };

  // Tile buffers first, then the homes of planes that live in memory.
  bool any_nvme = false;
  bool any_spilled = false;
  bool any_staged = false;    // weights go from the store to the device
  bool any_brought = false;   // gradients come from the device just before their update
  bool any_returned = false;  // and others go back there for it
  bool any_bounced = false;   // planes live there, and go through the host's memory to the store
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    plan.deferred.push_back(Deferred(draft, unit));
    plan.streams_update.push_back(draft.streamed[unit]);
    any_spilled |= Spills(draft, unit);
    plan.spill_room.gradients.push_back(Spills(draft, unit));
    any_nvme |= draft.placements[unit].any_nvme() || any_spilled;
    if (!request_.separate_device) continue;
    any_staged |= draft.placements[unit].weight == Tier::kNvme;
    const bool streamed = plan.streams_update[unit];
    any_brought |= !gradient_ops_[unit].empty() && !plan.deferred[unit] && !streamed;
    any_returned |= streamed && plan.deferred[unit];
    any_bounced |= draft.placements[unit].weight == Tier::kDevice;
  }
  plan.separate_device = request_.separate_device;
  plan.rounded_sums = request_.rounded_sums;
  plan.rounded_sums.resize(layout_.num_units());
  plan.tile_gradient_offset = any_nvme || any_bounced ? layout_.MaxTileBytes() : 0;
  plan.tile_buffer_bytes =
      plan.tile_gradient_offset + (any_spilled || any_brought ? layout_.MaxGradientTileBytes() : 0);
  plan.tile_buffers = any_nvme || any_brought || any_bounced ? draft.tile_buffers : 0;
  for (int i = 0; i < plan.tile_buffers; ++i) {
    plan.tile_spans.push_back(take(Tier::kHost, plan.tile_buffer_bytes));
  }
  for (int i = 0; any_staged && i < 2 * draft.tile_buffers; ++i) {
    plan.stage_spans.push_back(take(Tier::kHost, layout_.MaxPlaneTileBytes(0)));
  }
  if (request_.separate_device && training()) {
    plan.rounded_span = take(Tier::kDevice, layout_.MaxGradientTileBytes() + kPartialBytes);
    plan.partials_span = take(Tier::kHost, kMaxDeviceTiles * kPartialBytes);
  }
  plan.device_tile_gradient_offset = layout_.MaxTileBytes();
  for (int i = 0; i < draft.device_tiles; ++i) {
    plan.device_tile_spans.push_back(take(
        Tier::kDevice,
        plan.device_tile_gradient_offset + (any_returned ? layout_.MaxGradientTileBytes() : 0)));
  }
  plan.plane_homes.resize(layout_.num_units());
  plan.gradient_homes.resize(layout_.num_units());
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    const UnitPlacement& placement = draft.placements[unit];
    const uint64_t parameters = layout_.PaddedParameters(unit);
    plan.plane_homes[unit].resize(layout_.num_planes());
    for (int plane = 0; plane < layout_.NumPlanes(unit); ++plane) {
      const Tier home = plane == 0 ? placement.weight : placement.optimizer;
      if (home == Tier::kNvme) continue;
      plan.plane_homes[unit][plane] = take(home, layout_.UnitPlanesBytes(unit, plane, plane + 1));
    }
    if (plan.deferred[unit] && placement.gradient != Tier::kNvme) {
      plan.gradient_homes[unit] =
          take(placement.gradient, parameters * layout_.gradient_bytes_per_parameter());
    }
  }

  plan.activation_homes.resize(layout_.num_units());
  uint64_t largest_moved = 0;
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    const uint64_t bytes = ActivationBytes(unit);
    plan.activation_bytes.push_back(bytes);
    const bool may_spill = request_.has_storage && draft.activations[unit] != Tier::kDevice &&
                           request_.activations != TierChoice::kHost;
    plan.spill_room.activation_bytes.push_back(may_spill ? bytes : 0);
    if (draft.activations[unit] == Tier::kDevice) {
      plan.device_activation_bytes += bytes + bytes / kActivationMargin;
    } else {
      largest_moved = std::max(largest_moved, bytes);
    }
    if (draft.activations[unit] == Tier::kHost) {
      plan.activation_homes[unit] = take(Tier::kHost, bytes);
    }
  }
  // While a unit computes, one moved input is in device memory.
  if (largest_moved > request_.input_in_flight_bytes) {
    const uint64_t more = largest_moved - request_.input_in_flight_bytes;
    plan.device_activation_bytes += more + more / kActivationMargin;
  }

  // Then what comes and goes, packed by lifetime.
  std::vector<Lifetime> lifetimes;
  plan.weight_stays = WeightStays(draft, &lifetimes);
  plan.weight_at_hand.assign(layout_.num_units(), false);
  for (const WeightStay& stay : plan.weight_stays) {
    if (stay.feeds_update) plan.weight_at_hand[stay.unit] = true;
  }
  const uint64_t gradient_bytes = layout_.gradient_bytes_per_parameter();
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    const std::vector<int>& ops = gradient_ops_[unit];
    if (ops.empty()) continue;
    GradientStay stay;
    stay.unit = unit;
    stay.first_op = ops.front();
    stay.last_op = ops.back();
    stay.span.tier = request_.separate_device ? Tier::kDevice : Tier::kHost;
    stay.span.bytes =
        layout_.PaddedParameters(unit) * (plan.rounded_sums[unit] ? gradient_bytes : sizeof(float));
    plan.gradient_stays.push_back(stay);
    lifetimes.push_back({stay.first_op, stay.last_op + TailAt(draft, stay.last_op)});
  }
  plan.activation_stays = ActivationStays(draft, &lifetimes);
  plan.turn_stays = TurnStays(draft, plan.tile_buffer_bytes, &lifetimes);
  if (!plan.turn_stays.empty()) plan.turn_unit = TurnUnit(draft);
  std::vector<ArenaSpan*> spans;  // in the order of the lifetimes
  for (WeightStay& stay : plan.weight_stays) spans.push_back(&stay.span);
  for (GradientStay& stay : plan.gradient_stays) spans.push_back(&stay.span);
  for (ActivationStay& stay : plan.activation_stays) spans.push_back(&stay.span);
  for (TurnStay& stay : plan.turn_stays) spans.push_back(&stay.span);
  // Stays whose addresses are those of the one that takes over from them.
  std::vector<int> taken_over_by(layout_.num_units(), -1);
  std::vector<bool> none(spans.size(), false);
  for (int i = 0; i < static_cast<int>(plan.weight_stays.size()); ++i) {
    const WeightStay& stay = plan.weight_stays[i];
    if (stay.takes_over) taken_over_by[stay.unit] = i;
    if (stay.feeds_update && taken_over_by[stay.unit] >= 0) none[i] = true;
  }
  for (Tier tier : {Tier::kDevice, Tier::kHost}) {
    std::vector<PackedBuffer> buffers;
    for (size_t i = 0; i < spans.size(); ++i) {
      const bool packed = spans[i]->tier == tier && !none[i];
      buffers.push_back({lifetimes[i], packed ? spans[i]->bytes : 0});
    }
    uint64_t& end = next[static_cast<int>(tier)];
    const uint64_t base = end;
    end += PackBuffers(num_ops(), buffers);
    for (size_t i = 0; i < spans.size(); ++i) {
      if (spans[i]->tier == tier) spans[i]->offset = base + buffers[i].offset;
    }
  }
  for (WeightStay& stay : plan.weight_stays) {
    const int other = taken_over_by[stay.unit];
    if (stay.feeds_update && other >= 0) stay.span.offset = plan.weight_stays[other].span.offset;
  }
  std::stable_sort(
      plan.weight_stays.begin(), plan.weight_stays.end(),
      [](const WeightStay& a, const WeightStay& b) { return a.first_op < b.first_op; });
  std::stable_sort(
      plan.gradient_stays.begin(), plan.gradient_stays.end(),
      [](const GradientStay& a, const GradientStay& b) { return a.first_op < b.first_op; });
  std::stable_sort(
      plan.activation_stays.begin(), plan.activation_stays.end(),
      [](const ActivationStay& a, const ActivationStay& b) { return a.first_op < b.first_op; });
  plan.host_arena_bytes = next[static_cast<int>(Tier::kHost)];
  plan.device_arena_bytes = next[static_cast<int>(Tier::kDevice)];
}

}  // namespace spillway
