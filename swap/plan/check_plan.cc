#include "swap/plan/check_plan.h"

#include <algorithm>
#include <vector>

#include "io/base/check.h"

namespace spillway {
namespace {

int NumOps(const SwapPlan& plan) { return static_cast<int>(plan.schedule.ops.size()); }

void CheckSizes(const SwapPlan& plan) {
  const size_t units = plan.layout.num_units();
  SPILLWAY_CHECK(!plan.schedule.ops.empty());
  SPILLWAY_CHECK(plan.placements.size() == units && plan.activations.size() == units);
  SPILLWAY_CHECK(plan.deferred.size() == units && plan.weight_at_hand.size() == units);
  SPILLWAY_CHECK(plan.streams_update.size() == units && plan.rounded_sums.size() == units);
  SPILLWAY_CHECK(plan.plane_homes.size() == units && plan.gradient_homes.size() == units);
  SPILLWAY_CHECK(plan.activation_bytes.size() == units && plan.activation_homes.size() == units);
  SPILLWAY_CHECK(plan.spill_room.gradients.size() == units);
  SPILLWAY_CHECK(plan.spill_room.activation_bytes.size() == units);
}

// Where one unit's state, gradient and input are kept.
void CheckHomes(const SwapPlan& plan, int unit) {
  const StateLayout& layout = plan.layout;
  const UnitPlacement& placement = plan.placements[unit];
  SPILLWAY_CHECK(placement.first_nvme_plane >= 0);
  SPILLWAY_CHECK(placement.last_nvme_plane <= layout.NumPlanes(unit));
  for (int plane = 0; plane < layout.NumPlanes(unit); ++plane) {
    const Tier tier = placement.PlaneTier(plane);
    const ArenaSpan& home = plan.plane_homes[unit][plane];
    SPILLWAY_CHECK(placement.InStore(plane) == (tier == Tier::kNvme));
    SPILLWAY_CHECK(tier == Tier::kNvme ? home.bytes == 0 : home.tier == tier);
    SPILLWAY_CHECK(tier == Tier::kNvme ||
                   home.bytes == layout.UnitPlanesBytes(unit, plane, plane + 1));
  }
  const bool waits = plan.deferred[unit];
  const bool waits_in_memory = waits && placement.gradient != Tier::kNvme;
  const ArenaSpan& gradient = plan.gradient_homes[unit];
  SPILLWAY_CHECK(!waits || !layout.frozen(unit));
  SPILLWAY_CHECK(!waits_in_memory || gradient.tier == placement.gradient);
  SPILLWAY_CHECK(gradient.bytes == (waits_in_memory ? layout.PaddedParameters(unit) *
                                                          layout.gradient_bytes_per_parameter()
                                                    : 0));
  SPILLWAY_CHECK(plan.spill_room.gradients[unit] == (waits && !waits_in_memory));
  SPILLWAY_CHECK(!waits || !plan.weight_at_hand[unit]);  // the stay is gone when the update comes
  SPILLWAY_CHECK(!plan.streams_update[unit] ||
                 (plan.separate_device && !plan.UpdatesOnDevice(unit)));
  SPILLWAY_CHECK(!plan.separate_device || !plan.rounded_sums[unit]);

  const uint64_t input_bytes = plan.activation_bytes[unit];
  const Tier input = plan.activations[unit];
  SPILLWAY_CHECK(plan.activation_homes[unit].bytes == (input == Tier::kHost ? input_bytes : 0));
  SPILLWAY_CHECK(input != Tier::kNvme || plan.spill_room.activation_bytes[unit] == input_bytes);
}

// Memory that tiles pass through.
void CheckTileBuffers(const SwapPlan& plan) {
  SPILLWAY_CHECK(plan.tile_spans.size() == plan.tile_buffers);
  for (const ArenaSpan& tile : plan.tile_spans) {
    SPILLWAY_CHECK(tile.tier == Tier::kHost && tile.bytes == plan.tile_buffer_bytes);
  }
  SPILLWAY_CHECK(plan.separate_device || plan.stage_spans.empty());
  SPILLWAY_CHECK(plan.separate_device || plan.device_tile_spans.empty());
  SPILLWAY_CHECK(plan.separate_device || plan.rounded_span.bytes + plan.partials_span.bytes == 0);
  SPILLWAY_CHECK(plan.separate_device ||
                 plan.traffic.to_device_bytes + plan.traffic.to_host_bytes == 0);
  SPILLWAY_CHECK((plan.turn_unit >= 0) == !plan.turn_stays.empty());
  SPILLWAY_CHECK(plan.turn_unit < 0 || !plan.deferred[plan.turn_unit]);
  for (const TurnStay& stay : plan.turn_stays) {
    SPILLWAY_CHECK(stay.op == NumOps(plan) - 1 && stay.lead_ops >= 0 && stay.tiles > 0);
    SPILLWAY_CHECK(stay.span.tier == Tier::kHost &&
                   stay.span.bytes == stay.tiles * plan.tile_buffer_bytes);
  }
}

// How many of `stays` of the unit last over the operation.
template <typename Stay>
int StaysAt(const std::vector<std::vector<const Stay*>>& stays, int unit, int op) {
  return static_cast<int>(
      std::count_if(stays[unit].begin(), stays[unit].end(),
                    [&](const Stay* stay) { return stay->first_op <= op && op <= stay->last_op; }));
}

template <typename Stay>
std::vector<std::vector<const Stay*>> ByUnit(const SwapPlan& plan, const std::vector<Stay>& stays) {
  std::vector<std::vector<const Stay*>> by_unit(plan.layout.num_units());
  int first_op = 0;
  for (const Stay& stay : stays) {
    SPILLWAY_CHECK(stay.unit >= 0 && stay.unit < plan.layout.num_units());
    SPILLWAY_CHECK(stay.first_op >= first_op && stay.first_op <= stay.last_op);  // in order
    SPILLWAY_CHECK(stay.last_op < NumOps(plan));
    first_op = stay.first_op;
    by_unit[stay.unit].push_back(&stay);
  }
  return by_unit;
}

// Checks the stays of a unit's weights that feed its update or take its result.
void CheckUpdatesOfStays(const SwapPlan& plan, int unit,
                         const std::vector<const WeightStay*>& stays) {
  const WeightStay *feeds = nullptr, *takes_over = nullptr;
  for (const WeightStay* stay : stays) {
    SPILLWAY_CHECK(stay->lead_ops >= 0);
    SPILLWAY_CHECK(stay->span.bytes == plan.layout.UnitPlanesBytes(unit, 0, 1));
    SPILLWAY_CHECK(stay->span.tier == (plan.separate_device ? Tier::kDevice : Tier::kHost));
    SPILLWAY_CHECK(!stay->filled_by_update || plan.UpdateFillsStays(unit));
    SPILLWAY_CHECK(!stay->feeds_update || feeds == nullptr);
    SPILLWAY_CHECK(!stay->takes_over || takes_over == nullptr);
    if (stay->feeds_update) feeds = stay;
    if (stay->takes_over) takes_over = stay;
  }
  SPILLWAY_CHECK(plan.weight_at_hand[unit] == (feeds != nullptr));
  if (takes_over == nullptr) return;
  SPILLWAY_CHECK(feeds != nullptr && takes_over->filled_by_update);
  SPILLWAY_CHECK(takes_over->span.offset == feeds->span.offset);
}

// An operation finds everything that it uses at an address.
void CheckUses(const SwapPlan& plan) {
  const auto weights = ByUnit(plan, plan.weight_stays);
  const auto gradients = ByUnit(plan, plan.gradient_stays);
  const auto inputs = ByUnit(plan, plan.activation_stays);
  for (int op = 0; op < NumOps(plan); ++op) {
    const StepOp& step_op = plan.schedule.ops[op];
    for (const int unit : step_op.weights) {
      SPILLWAY_CHECK(StaysAt(weights, unit, op) == (plan.ReadsHome(unit) ? 0 : 1));
    }
    for (const int unit : step_op.gradients) {
      SPILLWAY_CHECK(!plan.layout.frozen(unit) && StaysAt(gradients, unit, op) == 1);
    }
    const bool has_inputs = step_op.kind != OpKind::kLoss && step_op.inputs_for_ops > 0;
    if (has_inputs && plan.activations[step_op.unit] == Tier::kNvme) {
      SPILLWAY_CHECK(StaysAt(inputs, step_op.unit, op) == 1);
    }
  }
  for (int unit = 0; unit < plan.layout.num_units(); ++unit) {
    CheckUpdatesOfStays(plan, unit, weights[unit]);
    SPILLWAY_CHECK(gradients[unit].size() <= 1);
    for (const GradientStay* stay : gradients[unit]) {
      SPILLWAY_CHECK(stay->span.bytes ==
                     plan.layout.PaddedParameters(unit) * plan.SumBytesPerParameter(unit));
    }
    const bool spilled = plan.activations[unit] == Tier::kNvme;
    SPILLWAY_CHECK(inputs[unit].size() == (spilled ? 2 : 0));
    if (!spilled) continue;
    const ActivationStay &saved = *inputs[unit][0], &loaded = *inputs[unit][1];
    SPILLWAY_CHECK(!saved.loads && loaded.loads);
    SPILLWAY_CHECK(saved.last_op < loaded.first_op - loaded.lead_ops);
    SPILLWAY_CHECK(saved.span.bytes == plan.activation_bytes[unit] &&
                   loaded.span.bytes == plan.activation_bytes[unit]);
  }
}

// A buffer that comes and goes: the operations [first, last] during which its addresses are its
// own.
struct Lease {
  const ArenaSpan* span;
  int first, last;
  int handed_over = -1;  // the unit whose weights stay in place from one step to the next
};

std::vector<Lease> Leases(const SwapPlan& plan) {
  std::vector<bool> taken_over(plan.layout.num_units(), false);
  for (const WeightStay& stay : plan.weight_stays) {
    if (stay.takes_over) taken_over[stay.unit] = true;
  }
  std::vector<Lease> leases;
  for (const WeightStay& stay : plan.weight_stays) {
    const bool shared = taken_over[stay.unit] && (stay.takes_over || stay.feeds_update);
    leases.push_back(
        {&stay.span, stay.first_op - stay.lead_ops, stay.last_op, shared ? stay.unit : -1});
  }
  for (const GradientStay& stay : plan.gradient_stays) {
    leases.push_back({&stay.span, stay.first_op, stay.last_op});
  }
  for (const ActivationStay& stay : plan.activation_stays) {
    leases.push_back({&stay.span, stay.first_op - stay.lead_ops, stay.last_op});
  }
  for (const TurnStay& stay : plan.turn_stays) {
    leases.push_back({&stay.span, stay.op - stay.lead_ops, stay.op});
  }
  std::erase_if(leases, [](const Lease& lease) { return lease.span->bytes == 0; });
  return leases;
}

// Memory that has one use for the whole run.
std::vector<const ArenaSpan*> FixedSpans(const SwapPlan& plan) {
  std::vector<const ArenaSpan*> fixed = {&plan.rounded_span, &plan.partials_span};
  const auto add = [&](const std::vector<ArenaSpan>& spans) {
    for (const ArenaSpan& span : spans) fixed.push_back(&span);
  };
  for (const auto& homes : plan.plane_homes) add(homes);
  for (const auto* spans : {&plan.gradient_homes, &plan.activation_homes, &plan.tile_spans,
                            &plan.stage_spans, &plan.device_tile_spans}) {
    add(*spans);
  }
  std::erase_if(fixed, [](const ArenaSpan* span) { return span->bytes == 0; });
  return fixed;
}

bool Before(const ArenaSpan& a, const ArenaSpan& b) {
  return a.tier != b.tier ? a.tier < b.tier : a.offset < b.offset;
}

void CheckInArena(const SwapPlan& plan, const ArenaSpan& span) {
  SPILLWAY_CHECK(span.tier != Tier::kNvme && span.offset % 4096 == 0);
  SPILLWAY_CHECK(span.offset + span.bytes <=
                 (span.tier == Tier::kHost ? plan.host_arena_bytes : plan.device_arena_bytes));
}

void CheckAddresses(const SwapPlan& plan) {
  std::vector<const ArenaSpan*> fixed = FixedSpans(plan);
  const auto before = [](const ArenaSpan* a, const ArenaSpan* b) { return Before(*a, *b); };
  std::sort(fixed.begin(), fixed.end(), before);
  for (size_t i = 0; i < fixed.size(); ++i) {
    CheckInArena(plan, *fixed[i]);
    SPILLWAY_CHECK(i == 0 || !fixed[i]->Overlaps(*fixed[i - 1]));
  }
  std::vector<std::vector<const Lease*>> at(NumOps(plan));  // [op] those that last over it
  const std::vector<Lease> leases = Leases(plan);
  for (const Lease& lease : leases) {
    CheckInArena(plan, *lease.span);
    const auto next = std::upper_bound(fixed.begin(), fixed.end(), lease.span, before);
    SPILLWAY_CHECK(next == fixed.end() || !lease.span->Overlaps(**next));
    SPILLWAY_CHECK(next == fixed.begin() || !lease.span->Overlaps(**(next - 1)));
    // A lead that begins in the step before meets that step's last operations.
    const int ops = std::min(lease.last - lease.first + 1, NumOps(plan));
    for (int i = 0; i < ops; ++i) {
      at[((lease.first + i) % NumOps(plan) + NumOps(plan)) % NumOps(plan)].push_back(&lease);
    }
  }
  for (std::vector<const Lease*>& together : at) {
    std::sort(together.begin(), together.end(),
              [](const Lease* a, const Lease* b) { return Before(*a->span, *b->span); });
    for (size_t i = 1; i < together.size(); ++i) {
      const Lease &a = *together[i - 1], &b = *together[i];
      const bool handed_over = a.handed_over >= 0 && a.handed_over == b.handed_over;
      SPILLWAY_CHECK(handed_over || !a.span->Overlaps(*b.span));
    }
  }
}

// The units that an operation names.
void CheckUnits(const std::vector<int>& units, int num_units) {
  int next = 0;
  for (const int unit : units) {
    SPILLWAY_CHECK(unit >= next && unit < num_units);
    next = unit + 1;
  }
}

}  // namespace

void CheckPlan(const SwapPlan& plan) {
  CheckSizes(plan);
  for (int unit = 0; unit < plan.layout.num_units(); ++unit) CheckHomes(plan, unit);
  CheckTileBuffers(plan);
  CheckUses(plan);
  CheckAddresses(plan);
}

void CheckRequest(const PlanRequest& request) {
  const int units = request.layout.num_units();
  SPILLWAY_CHECK(request.activation_bytes.empty() || request.activation_bytes.size() == units);
  SPILLWAY_CHECK(request.rounded_sums.size() <= units);
  for (const StepOp& op : request.schedule.ops) {
    SPILLWAY_CHECK(op.unit >= 0 && op.unit < units);
    CheckUnits(op.weights, units);
    CheckUnits(op.gradients, units);
  }
}

}  // namespace spillway
