#include "swap/swap_plan.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/check.h"
#include "swap/format_bytes.h"
#include "swap/stay_packing.h"
#include "swap/step_simulation.h"

namespace spillway {
namespace {

// Shares of deferred units that are tried, and how much faster one must be to be taken.
constexpr double kShareStep = 1.0 / 16, kMostDeferred = 0.75;
constexpr double kWorthwhile = 0.995;

uint64_t RoundUpToPage(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

// The choices that PlanSwaps searches over; Build turns one into addresses.
struct Draft {
  std::vector<UnitPlacement> placements;
  int lookahead = 0;
  // Operations after its last gradient during which an accumulator may still be
  // read by rounding and update before its addresses are needed again.
  int gradient_tail = 0;
  int tile_buffers = 0;
  std::set<int> kept_over_loss;  // units whose weights stay from forward to backward
  std::set<int> carried;         // immediate: units whose update fills the next forward
  std::set<int> deferred;        // immediate: units whose update waits for the next forward
};

class Planner {
 public:
  explicit Planner(const PlanRequest& request) : request_(request), layout_(request.layout) {
    for (int op = 0; op < num_ops(); ++op) {
      for (int unit : request.schedule.ops[op].weights) Grow(uses_, unit).push_back(op);
      for (int unit : request.schedule.ops[op].gradients) Grow(gradient_ops_, unit).push_back(op);
    }
    uses_.resize(layout_.num_units());
    gradient_ops_.resize(layout_.num_units());
  }

  absl::StatusOr<SwapPlan> Run(uint64_t* min_host_bytes, uint64_t* min_device_bytes);
  absl::StatusOr<std::vector<BudgetPair>> Smallest() const;

 private:
  static std::vector<int>& Grow(std::vector<std::vector<int>>& lists, int unit) {
    if (lists.size() <= unit) lists.resize(unit + 1);
    return lists[unit];
  }

  int num_ops() const { return static_cast<int>(request_.schedule.ops.size()); }
  bool deferred() const { return request_.schedule.update == UpdateMode::kDeferred; }
  bool Deferred(const Draft& draft, int unit) const {
    return deferred() || draft.deferred.contains(unit);
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
  bool forced_nvme() const {
    return request_.weights == TierChoice::kNvme && request_.optimizer == TierChoice::kNvme;
  }

  absl::StatusOr<UnitPlacement> BasePlacement() const;
  // The draft that needs the least memory, and those that need less of the host's and more
  // of the device's: calls `visit` with each until that returns false.
  absl::Status VisitSmallest(const std::function<bool(const Draft&)>& visit) const;
  void SetNvmePlanes(UnitPlacement& placement) const;
  std::vector<WeightStay> WeightStays(const Draft& draft, std::vector<Lifetime>* lifetimes) const;
  SwapPlan Build(const Draft& draft) const;
  bool Fits(const SwapPlan& plan) const {
    return plan.host_arena_bytes <= request_.host_bytes &&
           plan.device_arena_bytes <= request_.device_bytes;
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
  SwapPlan Spend(const Draft& smallest, double deferred_share) const;
  void DeferUpdates(Draft& draft, double share) const;
  void SpendRest(Draft& draft) const;
  void CacheUnits(Draft& draft) const;
  StepTraffic Traffic(const SwapPlan& plan) const;

  const PlanRequest& request_;
  const StateLayout& layout_;
  std::vector<std::vector<int>> uses_;          // [unit] -> ops that read its weights
  std::vector<std::vector<int>> gradient_ops_;  // [unit] -> ops that add to its gradient
};

absl::StatusOr<UnitPlacement> Planner::BasePlacement() const {
  auto choose = [&](TierChoice choice) {
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
  };
  UnitPlacement placement;
  placement.weight = choose(request_.weights);
  placement.optimizer = choose(request_.optimizer);
  placement.gradient = placement.optimizer;
  if (!request_.has_storage &&
      (placement.weight == Tier::kNvme || placement.optimizer == Tier::kNvme)) {
    return absl::InvalidArgumentError(
        "offloading to NVMe needs a place for it: give --swap PATH (or nvme_path in the config)");
  }
  SetNvmePlanes(placement);
  return placement;
}

void Planner::SetNvmePlanes(UnitPlacement& placement) const {
  const bool weight = placement.weight == Tier::kNvme;
  const bool optimizer = placement.optimizer == Tier::kNvme && layout_.num_planes() > 1;
  placement.first_nvme_plane = weight ? 0 : (optimizer ? 1 : 0);
  placement.last_nvme_plane = optimizer ? layout_.num_planes() : (weight ? 1 : 0);
}

// Cuts the uses of every unit that lives in the store into stays.
std::vector<WeightStay> Planner::WeightStays(const Draft& draft,
                                             std::vector<Lifetime>* lifetimes) const {
  std::vector<WeightStay> stays;
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    if (draft.placements[unit].weight != Tier::kNvme) continue;
    const std::vector<int>& uses = uses_[unit];
    const bool kept = draft.kept_over_loss.contains(unit);
    for (size_t i = 0; i < uses.size();) {
      WeightStay stay;
      stay.unit = unit;
      stay.first_op = stay.last_op = uses[i];
      while (++i < uses.size() && (kept || uses[i] - stay.last_op <= 1)) stay.last_op = uses[i];
      stay.span.bytes = layout_.PaddedParameters(unit) * layout_.planes()[0].bytes_per_parameter;
      Lifetime lifetime{stay.first_op - draft.lookahead, stay.last_op};
      // What the update takes must be all that it is to change.
      const std::vector<int>& added = gradient_ops_[unit];
      stay.feeds_update = !Deferred(draft, unit) && !added.empty() && added.back() == stay.last_op;
      if (stay.feeds_update) lifetime.last += draft.gradient_tail;
      if (stay.first_op == uses[0] && training()) {
        stay.filled_by_update = Deferred(draft, unit) || draft.carried.contains(unit);
        // A deferred update waits for the end of the step before.
        if (Deferred(draft, unit)) lifetime.first = std::max(lifetime.first, 0);
        if (draft.carried.contains(unit)) {
          lifetime.first = std::min(lifetime.first, gradient_ops_[unit].back() - num_ops());
        }
      }
      stay.lead_ops = stay.first_op - lifetime.first;
      stays.push_back(stay);
      lifetimes->push_back(lifetime);
    }
  }
  return stays;
}

SwapPlan Planner::Build(const Draft& draft) const {
  SwapPlan plan;
  plan.layout = layout_;
  plan.schedule = request_.schedule;
  plan.placements = draft.placements;
  plan.lookahead = draft.lookahead;

  uint64_t next[2] = {0, 0};  // by tier: kDevice, kHost
  auto take = [&](Tier tier, uint64_t bytes) {
    ArenaSpan span{tier, next[static_cast<int>(tier)], bytes};
    next[static_cast<int>(tier)] += RoundUpToPage(bytes);
    return span;
  };

  // Tile buffers first, then the homes of planes that live in memory.
  bool any_nvme = false;
  bool any_spilled = false;
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    plan.deferred.push_back(Deferred(draft, unit));
    any_spilled |= Spills(draft, unit);
    any_nvme |= draft.placements[unit].any_nvme() || any_spilled;
  }
  plan.tile_buffer_bytes =
      layout_.MaxTileBytes() + (any_spilled ? layout_.MaxGradientTileBytes() : 0);
  plan.tile_buffers = any_nvme ? draft.tile_buffers : 0;
  for (int i = 0; i < plan.tile_buffers; ++i) {
    plan.tile_spans.push_back(take(Tier::kHost, plan.tile_buffer_bytes));
  }
  plan.plane_homes.resize(layout_.num_units());
  plan.gradient_homes.resize(layout_.num_units());
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    const UnitPlacement& placement = draft.placements[unit];
    const uint64_t parameters = layout_.PaddedParameters(unit);
    plan.plane_homes[unit].resize(layout_.num_planes());
    for (int plane = 0; plane < layout_.num_planes(); ++plane) {
      const Tier home = plane == 0 ? placement.weight : placement.optimizer;
      if (home == Tier::kNvme) continue;
      plan.plane_homes[unit][plane] =
          take(home, parameters * layout_.planes()[plane].bytes_per_parameter);
    }
    if (plan.deferred[unit] && placement.gradient != Tier::kNvme) {
      plan.gradient_homes[unit] =
          take(placement.gradient, parameters * layout_.gradient_bytes_per_parameter());
    }
  }

  // Then what comes and goes, packed by lifetime.
  std::vector<Lifetime> lifetimes;
  plan.weight_stays = WeightStays(draft, &lifetimes);
  plan.weight_at_hand.assign(layout_.num_units(), false);
  for (const WeightStay& stay : plan.weight_stays) {
    if (stay.feeds_update) plan.weight_at_hand[stay.unit] = true;
  }
  std::vector<PackedBuffer> buffers;
  for (size_t i = 0; i < plan.weight_stays.size(); ++i) {
    buffers.push_back({lifetimes[i], plan.weight_stays[i].span.bytes});
  }
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    const std::vector<int>& ops = gradient_ops_[unit];
    if (ops.empty()) continue;
    GradientStay stay;
    stay.unit = unit;
    stay.first_op = ops.front();
    stay.last_op = ops.back();
    stay.span.bytes = layout_.PaddedParameters(unit) * sizeof(float);
    plan.gradient_stays.push_back(stay);
    buffers.push_back({{stay.first_op, stay.last_op + draft.gradient_tail}, stay.span.bytes});
  }
  const uint64_t base = next[static_cast<int>(Tier::kHost)];
  const uint64_t packed = PackBuffers(num_ops(), buffers);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const bool weight = i < plan.weight_stays.size();
    ArenaSpan& span =
        weight ? plan.weight_stays[i].span : plan.gradient_stays[i - plan.weight_stays.size()].span;
    span.offset = base + buffers[i].offset;
  }
  std::stable_sort(
      plan.weight_stays.begin(), plan.weight_stays.end(),
      [](const WeightStay& a, const WeightStay& b) { return a.first_op < b.first_op; });
  std::stable_sort(
      plan.gradient_stays.begin(), plan.gradient_stays.end(),
      [](const GradientStay& a, const GradientStay& b) { return a.first_op < b.first_op; });
  plan.host_arena_bytes = base + packed;
  plan.device_arena_bytes = next[static_cast<int>(Tier::kDevice)];
  plan.traffic = Traffic(plan);
  return plan;
}

StepTraffic Planner::Traffic(const SwapPlan& plan) const {
  StepTraffic traffic;
  for (const WeightStay& stay : plan.weight_stays) {
    if (!stay.filled_by_update) traffic.read_bytes += stay.span.bytes;
  }
  if (!training()) return traffic;
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    const uint64_t parameters = layout_.PaddedParameters(unit);
    uint64_t spilled = 0;
    if (plan.deferred[unit] && plan.placements[unit].gradient == Tier::kNvme) {
      spilled = layout_.gradient_bytes_per_parameter();
    }
    traffic.read_bytes += parameters * (plan.UpdateBytesRead(unit) + spilled);
    traffic.written_bytes += parameters * (plan.UpdateBytesWritten(unit) + spilled);
  }
  return traffic;
}

// Immediate updates all fall into the backward, while a forward leaves the disk half idle:
// every so-manieth unit keeps its gradient in host memory and is updated there, where its
// new weights go straight into their use.
void Planner::DeferUpdates(Draft& draft, double share) const {
  double due = 0;
  // The first unit's update is needed at once: its gradient is the last, its forward the first.
  for (int unit = 1; unit < layout_.num_units(); ++unit) {
    if (gradient_ops_[unit].empty() || !draft.placements[unit].any_nvme()) continue;
    due += share;
    if (due < 1) continue;
    due -= 1;
    TryChange(draft, [&](Draft& d) {
      d.deferred.insert(unit);
      d.placements[unit].gradient = Tier::kHost;
    });
  }
}

// Memory beyond the minimum, in order of what a byte saves.
void Planner::SpendRest(Draft& draft) const {
  // The turns of a step: there, a fetch would have nothing to hide behind. When the
  // user asked for everything on NVMe they stay within a quarter of the parameters.
  const uint64_t limit =
      forced_nvme() ? layout_.TotalPaddedParameters() / 4 : layout_.TotalPaddedParameters();
  uint64_t held = 0;
  auto within = [&](int unit) { return held + layout_.PaddedParameters(unit) <= limit; };
  const int last_unit = layout_.num_units() - 1;
  for (int i = 0; training() && i < 2; ++i) {
    const int front = i;
    if (!deferred() && front < last_unit && !gradient_ops_[front].empty() && within(front) &&
        TryChange(draft, [&](Draft& d) { d.carried.insert(front); })) {
      held += layout_.PaddedParameters(front);
    }
    const int back = last_unit - 1 - i;
    if (back > front && within(back) &&
        TryChange(draft, [&](Draft& d) { d.kept_over_loss.insert(back); })) {
      held += layout_.PaddedParameters(back);
    }
  }
  if (deferred()) {
    for (int unit = 0; unit < layout_.num_units(); ++unit) {
      if (draft.placements[unit].gradient != Tier::kNvme) continue;
      TryChange(draft, [&](Draft& d) { d.placements[unit].gradient = Tier::kHost; });
    }
  }
  CacheUnits(draft);
}

// Whole units that then never touch storage; the first units first, since their
// updates stand at the turn between two steps.
void Planner::CacheUnits(Draft& draft) const {
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    for (Tier tier : {Tier::kHost, Tier::kDevice}) {
      UnitPlacement& placement = draft.placements[unit];
      const bool weight = request_.weights == TierChoice::kAuto && placement.weight == Tier::kNvme;
      const bool optimizer =
          request_.optimizer == TierChoice::kAuto && placement.optimizer == Tier::kNvme;
      if (!weight && !optimizer) break;
      const bool done = TryChange(draft, [&](Draft& d) {
        UnitPlacement& p = d.placements[unit];
        if (weight) p.weight = tier;
        if (optimizer) p.optimizer = tier;
        if (optimizer && deferred() && p.gradient == Tier::kNvme) p.gradient = tier;
        if (optimizer) d.deferred.erase(unit);  // its update keeps no disk busy
        SetNvmePlanes(p);
      });
      if (done) break;
    }
  }
}

absl::Status Planner::VisitSmallest(const std::function<bool(const Draft&)>& visit) const {
  SPILLWAY_CHECK(num_ops() > 0);
  auto base = BasePlacement();
  if (!base.ok()) return base.status();
  Draft smallest;
  smallest.placements.assign(layout_.num_units(), *base);
  smallest.tile_buffers = 2;
  bool go_on = visit(smallest);
  // In memory without a choice of which: the host's is filled first, then the device's.
  const bool host_then_device = !request_.has_storage && request_.weights == TierChoice::kAuto &&
                                request_.optimizer == TierChoice::kAuto;
  for (int unit = layout_.num_units() - 1; host_then_device && go_on && unit >= 0; --unit) {
    UnitPlacement& placement = smallest.placements[unit];
    placement.weight = placement.optimizer = placement.gradient = Tier::kDevice;
    go_on = visit(smallest);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<BudgetPair>> Planner::Smallest() const {
  std::vector<BudgetPair> pairs;
  const absl::Status status = VisitSmallest([&](const Draft& draft) {
    const SwapPlan plan = Build(draft);
    pairs.push_back({plan.host_arena_bytes, plan.device_arena_bytes});
    return true;
  });
  if (!status.ok()) return status;
  return pairs;
}

absl::StatusOr<SwapPlan> Planner::Run(uint64_t* min_host_bytes, uint64_t* min_device_bytes) {
  Draft smallest;
  BudgetPair least;
  bool first = true, fits = false;
  const absl::Status status = VisitSmallest([&](const Draft& draft) {
    const SwapPlan plan = Build(draft);
    if (std::exchange(first, false)) least = {plan.host_arena_bytes, plan.device_arena_bytes};
    fits = Fits(plan);
    if (fits) smallest = draft;
    return !fits;
  });
  if (!status.ok()) return status;
  if (min_host_bytes) *min_host_bytes = least.host_bytes;
  if (min_device_bytes) *min_device_bytes = least.device_bytes;
  if (!fits) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the plan needs at least ", FormatBytes(least.host_bytes), " of host and ",
        FormatBytes(least.device_bytes), " of device memory for state, of which ",
        FormatBytes(request_.host_bytes), " and ", FormatBytes(request_.device_bytes), " are left",
        request_.has_storage ? "" : "; with --swap PATH state can live on NVMe"));
  }

  SwapPlan plan = Spend(smallest, request_.deferred_share.value_or(0));
  const bool choose = !deferred() && training() && request_.clock && !request_.deferred_share;
  if (choose && plan.traffic.written_bytes > 0) {
    double least_seconds = SimulateStep(plan, *request_.clock).seconds;
    for (double share = kShareStep; share <= kMostDeferred; share += kShareStep) {
      SwapPlan other = Spend(smallest, share);
      const double seconds = SimulateStep(other, *request_.clock).seconds;
      if (seconds > least_seconds * kWorthwhile) continue;
      least_seconds = seconds;
      plan = std::move(other);
    }
  }
  plan.min_host_bytes = least.host_bytes;
  return plan;
}

// From the draft that needs least to the plan that makes the most of the budgets.
SwapPlan Planner::Spend(const Draft& smallest, double deferred_share) const {
  // The deepest look-ahead that fits.
  Draft draft = smallest;
  struct Level {
    int lookahead, tail, tile_buffers;
  };
  // Tiles wait for a read, a worker and a write in turn: 16 to 24 keep all three busy.
  for (const Level& level : {Level{4, 2, 24}, Level{4, 2, 16}, Level{4, 2, 8}, Level{3, 2, 8},
                             Level{2, 2, 6}, Level{2, 1, 4}, Level{1, 1, 3}, Level{1, 0, 2}}) {
    if (TryChange(draft, [&](Draft& d) {
          d.lookahead = std::min(level.lookahead, request_.max_lookahead);
          d.gradient_tail = level.tail;
          d.tile_buffers =
              std::clamp(level.tile_buffers, 2, std::max(2, request_.max_tile_buffers));
        })) {
      break;
    }
  }
  if (!deferred()) DeferUpdates(draft, deferred_share);
  SpendRest(draft);
  return Build(draft);
}

}  // namespace

absl::StatusOr<SwapPlan> PlanSwaps(const PlanRequest& request, uint64_t* min_host_bytes,
                                   uint64_t* min_device_bytes) {
  return Planner(request).Run(min_host_bytes, min_device_bytes);
}

absl::StatusOr<std::vector<BudgetPair>> SmallestBudgets(const PlanRequest& request) {
  return Planner(request).Smallest();
}

}  // namespace spillway
