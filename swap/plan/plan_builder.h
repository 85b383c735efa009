// Turns a draft, which says where state lives, into a plan: stays, their addresses and the traffic.
//
// One thread; the request outlives the builder.
#pragma once

#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "swap/plan/large_units.h"
#include "swap/plan/plan_request.h"
#include "swap/plan/stay_packing.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// The choices that the planner searches over.
struct Draft {
  std::vector<UnitPlacement> placements;
  std::vector<Tier> activations;  // [unit]
  int lookahead = 0;
  int forward_lookahead = 0;  // in the forward, which has no gradients; no less than lookahead
  // For how many operations after its last use by compute a buffer keeps its addresses, so that
  // rounding, an update or a write may still read it.
  int tail = 0;
  // Look-ahead and tail far from large units. They apply to an operation up to its distance from
  // the nearest large unit, since the memory that this unit needs is idle there.
  int apart_lookahead = 0, apart_tail = 0;
  int tile_buffers = 0;
  int turn_tiles = 0;
  std::set<int> kept_over_loss;  // units whose weights stay from forward to backward
  std::set<int> carried;         // immediate: units whose update fills the next forward
  std::vector<bool> deferred;    // immediate: [unit] whose update waits for the next forward
  std::vector<bool> streamed;    // [unit] whose tiles pass through the device for their update
  int device_tiles = 0;          // how many of those tiles may be on the device at once
};

class PlanBuilder {
 public:
  explicit PlanBuilder(const PlanRequest& request);

  // The draft that needs the least host memory. kInvalidArgument where the request's choices
  // contradict each other.
  absl::StatusOr<Draft> BaseDraft() const;
  SwapPlan Build(const Draft& draft) const;
  // The bytes that the draft's plan takes of both memories; cheaper than Build.
  BudgetPair Measure(const Draft& draft) const;

  // Whether any operation adds to a gradient.
  bool training() const;
  // Whether some units, mostly vocabularies, are far larger than most.
  bool any_large() const { return large_.any(); }
  bool Trains(int unit) const { return !gradient_ops_[unit].empty(); }
  bool all_deferred() const { return request_.schedule.update == UpdateMode::kDeferred; }
  // Whether a separate device may update: not if updates are measured first, on the host.
  bool device_may_update() const { return request_.schedule.measures.all() == 0; }
  // Whether the plan decides where the inputs of units are kept.
  bool chooses_activations() const {
    return request_.activations == TierChoice::kAuto && !request_.activation_bytes.empty();
  }
  // The unit whose gradient is complete last, if its update is immediate and goes through the
  // store; otherwise -1.
  int TurnUnit(const Draft& draft) const;
  // Sets which planes are in the store, after a change of the placement's tiers.
  void SetNvmePlanes(int unit, UnitPlacement& placement) const;

 private:
  int num_ops() const { return static_cast<int>(request_.schedule.ops.size()); }
  bool Deferred(const Draft& draft, int unit) const {
    return Trains(unit) && (all_deferred() || draft.deferred[unit]);
  }
  // Whether the unit's update is deferred and its gradient waits in the store.
  bool Spills(const Draft& draft, int unit) const {
    return Deferred(draft, unit) && draft.placements[unit].gradient == Tier::kNvme;
  }
  // Bytes of the unit's input that the plan has to keep somewhere.
  uint64_t ActivationBytes(int unit) const;
  Tier BaseTier(TierChoice choice) const;
  int LookaheadAt(const Draft& draft, int op) const;
  int TailAt(const Draft& draft, int op) const;
  // Sets everything of `plan` but its layout, schedule and traffic.
  void PlaceBuffers(const Draft& draft, SwapPlan& plan) const;
  // Each returns stays, and appends their lifetimes in the same order.
  std::vector<WeightStay> WeightStays(const Draft& draft, std::vector<Lifetime>* lifetimes) const;
  std::vector<ActivationStay> ActivationStays(const Draft& draft,
                                              std::vector<Lifetime>* lifetimes) const;
  std::vector<TurnStay> TurnStays(const Draft& draft, uint64_t tile_bytes,
                                  std::vector<Lifetime>* lifetimes) const;

  const PlanRequest& request_;
  const StateLayout& layout_;
  std::vector<std::vector<int>> uses_;          // [unit] -> ops that read its weights
  std::vector<std::vector<int>> gradient_ops_;  // [unit] -> ops that add to its gradient
  std::vector<int> forward_op_, backward_op_;   // [unit] the op that is given its inputs; -1: none
  const LargeUnits large_;
};

}  // namespace spillway
