// The search behind PlanSwaps: a draft holds the choices, Build turns one into addresses.
// What a draft's choices mean is in swap/plan/swap_plan.cc, which are taken in
// swap/plan/plan_search.cc.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "swap/plan/stay_packing.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// The choices that PlanSwaps searches over; Build turns one into addresses.
struct Draft {
  std::vector<UnitPlacement> placements;
  std::vector<Tier> activations;  // [unit]
  int lookahead = 0;
  int forward_lookahead = 0;  // of the forward, which has no gradients: no less than that
  // Operations after its last use by compute during which a buffer may still be read, by
  // rounding and update or by a write, before its addresses are needed again.
  int tail = 0;
  int tile_buffers = 0;
  int turn_tiles = 0;
  std::set<int> kept_over_loss;  // units whose weights stay from forward to backward
  std::set<int> carried;         // immediate: units whose update fills the next forward
  std::set<int> deferred;        // immediate: units whose update waits for the next forward
  std::set<int> streamed;        // units whose tiles pass through the device for their update
  int device_tiles = 0;          // so many at once
};

class Planner {
 public:
  explicit Planner(const PlanRequest& request)
      : request_(request), host_bytes_(request.host_bytes), layout_(request.layout) {
    for (int op = 0; op < num_ops(); ++op) {
      for (int unit : request.schedule.ops[op].weights) Grow(uses_, unit).push_back(op);
      for (int unit : request.schedule.ops[op].gradients) Grow(gradient_ops_, unit).push_back(op);
    }
    uses_.resize(layout_.num_units());
    gradient_ops_.resize(layout_.num_units());
    forward_op_.assign(layout_.num_units(), -1);
    backward_op_.assign(layout_.num_units(), -1);
    for (int op = 0; op < num_ops(); ++op) {
      const StepOp& step_op = request.schedule.ops[op];
      if (step_op.kind == OpKind::kForward) forward_op_[step_op.unit] = op;
      if (step_op.kind == OpKind::kBackward) backward_op_[step_op.unit] = op;
    }
  }

  absl::StatusOr<SwapPlan> Run(uint64_t* min_host_bytes, uint64_t* min_device_bytes);
  absl::StatusOr<std::vector<BudgetPair>> Smallest() const;

 private:
  static std::vector<int>& Grow(std::vector<std::vector<int>>& lists, int unit) {
    if (lists.size() <= unit) lists.resize(unit + 1);
    return lists[unit];
  }

  int num_ops() const { return static_cast<int>(request_.schedule.ops.size()); }
  bool all_deferred() const { return request_.schedule.update == UpdateMode::kDeferred; }
  bool Deferred(const Draft& draft, int unit) const {
    return all_deferred() || draft.deferred.contains(unit);
  }
  // Deferred, with its gradient in the store until then.
  bool Spills(const Draft& draft, int unit) const {
    return Deferred(draft, unit) && draft.placements[unit].gradient == Tier::kNvme;
  }
  bool training() const {
    for (const auto& ops : gradient_ops_) {
      if (!ops.empty()) return true;
    }
    return false;
  }
  // Bytes of the unit's input that the plan has to keep somewhere.
  uint64_t ActivationBytes(int unit) const;
  bool chooses_activations() const {
    return request_.activations == TierChoice::kAuto && !request_.activation_bytes.empty();
  }
  bool forced_nvme() const {
    return request_.weights == TierChoice::kNvme && request_.optimizer == TierChoice::kNvme;
  }

  Tier BaseTier(TierChoice choice) const;
  absl::StatusOr<Draft> BaseDraft() const;
  // Its update is streamed through the device.
  bool Streams(const Draft& draft, int unit) const { return draft.streamed.contains(unit); }
  // The draft that needs the least memory, and those that need less of the host's and more
  // of the device's: calls `visit` with each until that returns false.
  absl::Status VisitSmallest(const std::function<bool(const Draft&)>& visit) const;
  void SetNvmePlanes(UnitPlacement& placement) const;
  std::vector<WeightStay> WeightStays(const Draft& draft, std::vector<Lifetime>* lifetimes) const;
  std::vector<ActivationStay> ActivationStays(const Draft& draft,
                                              std::vector<Lifetime>* lifetimes) const;
  int LookaheadAt(const Draft& draft, int op) const {
    const bool forward = request_.schedule.ops[op].kind == OpKind::kForward;
    return forward ? std::max(draft.lookahead, draft.forward_lookahead) : draft.lookahead;
  }
  SwapPlan Build(const Draft& draft) const;
  bool Fits(const SwapPlan& plan) const {
    return plan.host_arena_bytes <= host_bytes_ && plan.device_bytes() <= request_.device_bytes;
  }
  // Keeps `draft` with `change` made to it if that still fits.
  template <typename Change>
  bool TryChange(Draft& draft, Change change) const {
    Draft next = draft;
    change(next);
    if (!Fits(Build(next))) return false;
    draft = std::move(next);
    return true;
  }
  // `level`: of look-ahead, the deepest first; what does not fit is passed over.
  SwapPlan Fastest(const std::vector<Draft>& smallest, SwapPlan plan);
  int Deepen(Draft& draft, int begin) const;
  SwapPlan Spend(const Draft& smallest, double deferred_share, int level) const;
  // The unit whose gradient is complete last, where its update goes through the store at once.
  int TurnUnit(const Draft& draft) const;
  std::vector<TurnStay> TurnStays(const Draft& draft, uint64_t tile_bytes,
                                  std::vector<Lifetime>* lifetimes) const;
  bool chooses_separate_memory() const {
    return request_.separate_device && request_.weights == TierChoice::kAuto &&
           request_.optimizer == TierChoice::kAuto;
  }
  void PutAllOnDevice(Draft& draft) const;
  void KeepActivations(Draft& draft) const;
  std::vector<double> DeviceUpdateShares() const;
  void StreamUpdates(Draft& draft, double share) const;
  void ReadAheadAtTheTurn(Draft& draft) const;
  void DeferUpdates(Draft& draft, double share) const;
  void SpendRest(Draft& draft) const;
  void CacheUnits(Draft& draft) const;
  StepTraffic Traffic(const SwapPlan& plan) const;

  const PlanRequest& request_;
  uint64_t host_bytes_;  // of the request's, as much as shall be used
  const StateLayout& layout_;
  std::vector<std::vector<int>> uses_;          // [unit] -> ops that read its weights
  std::vector<std::vector<int>> gradient_ops_;  // [unit] -> ops that add to its gradient
  std::vector<int> forward_op_, backward_op_;   // [unit] its own; -1 where there is none
};

}  // namespace spillway
