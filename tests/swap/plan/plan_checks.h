// What must hold of every plan, for tests.
#pragma once

#include <vector>

#include "gtest/gtest.h"
#include "swap/plan/stay_packing.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// Whether two lifetimes meet in some step. They reach at most one period beyond it on either side.
inline bool LifetimesMeet(const Lifetime& a, const Lifetime& b, int period) {
  for (int shift = -2; shift <= 2; ++shift) {
    if (a.first <= b.last + shift * period && b.first + shift * period <= a.last) return true;
  }
  return false;
}

// No two buffers that are alive in one op, of this step or the next, share an address; a stay
// is alive from the first op of its lead on. But one that takes over from the step before has
// those of the one that it takes over from.
inline void CheckAddresses(const SwapPlan& plan) {
  struct Span {
    ArenaSpan place;
    Lifetime ops;
    int shared_by = -1;  // the unit whose weights stay there over the turn
  };
  std::vector<Span> spans;
  const int ops = static_cast<int>(plan.schedule.ops.size());
  const auto add = [&](const ArenaSpan& span, int first, int last) {
    if (span.bytes > 0) spans.push_back({span, {first, last}});
  };
  const auto always = [&](const ArenaSpan& span) { add(span, 0, ops - 1); };
  for (const auto& homes : plan.plane_homes) {
    for (const ArenaSpan& home : homes) always(home);
  }
  for (const ArenaSpan& home : plan.gradient_homes) always(home);
  for (const ArenaSpan& home : plan.activation_homes) always(home);
  for (const ArenaSpan& tile : plan.tile_spans) always(tile);
  for (const ArenaSpan& stage : plan.stage_spans) always(stage);
  for (const ArenaSpan& tile : plan.device_tile_spans) always(tile);
  always(plan.rounded_span);
  always(plan.partials_span);
  std::vector<uint64_t> taken_over(plan.layout.num_units(), UINT64_MAX);
  for (const WeightStay& stay : plan.weight_stays) {
    if (stay.takes_over) taken_over[stay.unit] = stay.span.offset;
  }
  for (const WeightStay& stay : plan.weight_stays) {
    add(stay.span, stay.first_op - stay.lead_ops, stay.last_op);
    const bool given = stay.feeds_update && taken_over[stay.unit] != UINT64_MAX;
    if (stay.takes_over || given) {
      ASSERT_EQ(stay.span.offset, taken_over[stay.unit]);
      if (stay.span.bytes > 0) spans.back().shared_by = stay.unit;
    }
  }
  for (const TurnStay& stay : plan.turn_stays) {
    ASSERT_EQ(stay.span.bytes, stay.tiles * plan.tile_buffer_bytes);
    add(stay.span, stay.op - stay.lead_ops, stay.op);
  }
  for (const GradientStay& stay : plan.gradient_stays) {
    add(stay.span, stay.first_op, stay.last_op);
  }
  for (const ActivationStay& stay : plan.activation_stays) {
    add(stay.span, stay.first_op - stay.lead_ops, stay.last_op);
  }
  for (size_t i = 0; i < spans.size(); ++i) {
    const ArenaSpan& place = spans[i].place;
    ASSERT_LE(place.offset + place.bytes,
              place.tier == Tier::kHost ? plan.host_arena_bytes : plan.device_arena_bytes);
    for (size_t j = 0; j < i; ++j) {
      const bool time = LifetimesMeet(spans[i].ops, spans[j].ops, ops);
      if (spans[i].shared_by >= 0 && spans[i].shared_by == spans[j].shared_by) continue;
      ASSERT_FALSE(time && place.Overlaps(spans[j].place)) << i << " and " << j;
    }
  }
}

}  // namespace spillway
