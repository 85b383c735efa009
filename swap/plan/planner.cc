#include "swap/plan/planner.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "swap/plan/check_plan.h"
#include "swap/plan/depth_levels.h"
#include "swap/plan/plan_builder.h"

namespace spillway {
namespace {

// Shares of deferred units that are tried, and how much faster one must be to be taken.
constexpr double kShareStep = 1.0 / 16, kMostDeferred = 1;
constexpr double kWorthwhile = 0.995;
// With more units each is a smaller part of the whole, and the choices between plans are coarser.
constexpr int kFewUnits = 64;

// Tiles under way on a device that updates them: one comes, one is worked on, one goes, and one
// more.
constexpr int kFewestDeviceTiles = 2, kMostDeviceTiles = 4;

// Whether a store with `room` has all that is spilled by a plan that asks for `other`.
bool Covers(const SpillRoom& room, const SpillRoom& other) {
  for (size_t unit = 0; unit < other.gradients.size(); ++unit) {
    if (other.gradients[unit] && !room.gradients[unit]) return false;
    if (other.activation_bytes[unit] > room.activation_bytes[unit]) return false;
  }
  return true;
}

// The search: which draft it shall be, the smallest one and what memory beyond it is spent on.
class Planner {
 public:
  explicit Planner(const PlanRequest& request, const StepTimer& timer = nullptr)
      : request_(request),
        timer_(timer),
        layout_(request.layout),
        builder_(request),
        tiles_under_way_(TilesUnderWay(request)),
        levels_(request),
        host_bytes_(request.host_bytes) {}

  absl::StatusOr<SwapPlan> Run(uint64_t* min_host_bytes, uint64_t* min_device_bytes);
  absl::StatusOr<std::vector<BudgetPair>> Smallest() const;

 private:
  bool training() const { return builder_.training(); }
  bool timed() const { return training() && request_.clock && timer_; }
  double SecondsOf(const SwapPlan& plan) const;
  bool all_deferred() const { return builder_.all_deferred(); }
  bool many_units() const { return layout_.num_units() > kFewUnits; }
  bool chooses_activations() const { return builder_.chooses_activations(); }
  bool chooses_separate_memory() const {
    return request_.separate_device && builder_.device_may_update() &&
           request_.weights == TierChoice::kAuto && request_.optimizer == TierChoice::kAuto;
  }
  bool forced_nvme() const {
    return request_.weights == TierChoice::kNvme && request_.optimizer == TierChoice::kNvme;
  }
  bool Fits(const BudgetPair& needed) const {
    return needed.host_bytes <= host_bytes_ && needed.device_bytes <= request_.device_bytes;
  }
  // Keeps `draft` with `change` made to it if that still fits.
  template <typename Change>
  bool TryChange(Draft& draft, Change change) const {
    Draft next = draft;
    change(next);
    if (!Fits(builder_.Measure(next))) return false;
    draft = std::move(next);
    return true;
  }
  // Makes `change(draft, unit)` for each of `units` in order, where it still fits; `bytes(unit)` is
  // what a change takes. Returns the units that were passed over. Takes time like the logarithm of
  // their number: units are changed together, and where some did not fit their like is not tried.
  template <typename Bytes, typename Change>
  std::vector<int> TryEach(Draft& draft, const std::vector<int>& units, Bytes bytes,
                           Change change) const;

  // The draft that needs the least memory, and those that need less of the host's and more
  // of the device's: calls `visit` with each until that returns false.
  absl::Status VisitSmallest(const std::function<bool(const Draft&)>& visit) const;
  SwapPlan Fastest(const std::vector<Draft>& smallest, SwapPlan plan);
  int Deepen(Draft& draft, int begin) const;
  SwapPlan Spend(const Draft& smallest, double deferred_share, int level_begin) const;
  void PutAllOnDevice(Draft& draft) const;
  void KeepActivations(Draft& draft) const;
  std::vector<double> DeviceUpdateShares() const;
  std::vector<double> DeferredShares(const Draft& draft) const;
  std::vector<int> EvenlySpread(const Draft& draft, double share) const;
  void StreamUpdates(Draft& draft, double share) const;
  void ReadAheadAtTheTurn(Draft& draft) const;
  void WorkAheadApart(Draft& draft) const;
  void DeferUpdates(Draft& draft, double share) const;
  void SpendRest(Draft& draft) const;
  void CacheUnits(Draft& draft) const;

  const PlanRequest& request_;
  const StepTimer timer_;
  const StateLayout& layout_;
  const PlanBuilder builder_;
  // The size of a unit in parameters.
  const std::function<uint64_t(int)> parameters_ = [this](int unit) {
    return layout_.PaddedParameters(unit);
  };
  const double tiles_under_way_;  // that the disk asks for
  const DepthLevels levels_;
  uint64_t host_bytes_;  // of the request's, as much as shall be used
};

// The timer's disk is as fast as the clock says whatever is under way. Where that asks for more
// tiles than plans usually have, the disk is slower by what is missing.
double Planner::SecondsOf(const SwapPlan& plan) const {
  const double seconds = timer_(plan, *request_.clock);
  const int tiles = std::max(plan.tile_buffers, levels_[levels_.usual()].tile_buffers);
  if (plan.tile_buffers == 0 || tiles_under_way_ <= tiles) return seconds;
  const double disk_seconds =
      request_.clock->disk.Seconds(static_cast<double>(plan.traffic.read_bytes),
                                   static_cast<double>(plan.traffic.written_bytes));
  return std::max(seconds, disk_seconds * tiles_under_way_ / tiles);
}

template <typename Bytes, typename Change>
std::vector<int> Planner::TryEach(Draft& draft, const std::vector<int>& units, Bytes bytes,
                                  Change change) const {
  // A change may fit where a smaller one did not: it takes other addresses.
  constexpr size_t kTriedAnyway = 8;
  std::vector<int> passed_over;
  uint64_t too_large = UINT64_MAX;
  size_t together = 1;
  for (size_t at = 0; at < units.size();) {
    if (passed_over.size() >= kTriedAnyway && bytes(units[at]) >= too_large) {
      passed_over.push_back(units[at++]);
      continue;
    }
    const size_t end = std::min(at + together, units.size());
    const bool fits = TryChange(draft, [&](Draft& d) {
      for (size_t i = at; i < end; ++i) change(d, units[i]);
    });
    if (fits) {
      at = end;
      together *= 2;
    } else if (end - at > 1) {
      together = (end - at) / 2;
    } else {
      too_large = std::min(too_large, bytes(units[at]));
      passed_over.push_back(units[at++]);
    }
  }
  return passed_over;
}

// On the device an activation costs no transfer. Those of the last units are there for the
// shortest time.
void Planner::KeepActivations(Draft& draft) const {
  if (!chooses_activations()) return;
  const auto on_device = [&](Draft& d) {
    d.activations.assign(layout_.num_units(), Tier::kDevice);
  };
  if (TryChange(draft, on_device)) return;
  std::vector<int> units;
  for (int unit = layout_.num_units() - 1; unit >= 0; --unit) {
    if (draft.activations[unit] != Tier::kDevice) units.push_back(unit);
  }
  TryEach(
      draft, units, [&](int unit) { return request_.activation_bytes[unit]; },
      [](Draft& d, int unit) { d.activations[unit] = Tier::kDevice; });
}

// Those to be tried, the one without a clock first.
std::vector<double> Planner::DeviceUpdateShares() const {
  if (!builder_.device_may_update()) return {0};
  const bool tells = timed() && request_.clock->device_update_bytes_per_second > 0;
  if (request_.device_update_share || !request_.separate_device || !tells) {
    return {request_.device_update_share.value_or(0)};
  }
  return {0, 1, 0.75, 0.5, 0.25};
}

// Streams the updates of some of the neighbouring units and not of others, so that the link and the
// workers are busy at the same time. Begins with the least memory that lets tiles come and go at
// once.
void Planner::StreamUpdates(Draft& draft, double share) const {
  if (!request_.separate_device || !training()) return;
  TryChange(draft, [&](Draft& d) {
    double due = 0;
    for (int unit = 0; unit < layout_.num_units(); ++unit) {
      const double bytes = static_cast<double>(layout_.PaddedParameters(unit));
      const UnitPlacement& placement = d.placements[unit];
      const bool there = placement.weight == Tier::kDevice && placement.optimizer == Tier::kDevice;
      if (bytes == 0 || !builder_.Trains(unit) || there) continue;
      due += share * bytes;
      if (due < bytes / 2) continue;
      due -= bytes;
      d.streamed[unit] = true;
      d.device_tiles = kFewestDeviceTiles;
    }
  });
}

void Planner::PutAllOnDevice(Draft& draft) const {
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    UnitPlacement& placement = draft.placements[unit];
    placement.weight = placement.optimizer = placement.gradient = Tier::kDevice;
    builder_.SetNvmePlanes(unit, placement);
  }
  if (chooses_activations()) draft.activations.assign(layout_.num_units(), Tier::kDevice);
}

// With all else in place: as many tiles as fit into what is idle there.
void Planner::ReadAheadAtTheTurn(Draft& draft) const {
  const int unit = builder_.TurnUnit(draft);
  if (unit < 0) return;
  std::vector<int> choices;
  for (int tiles = layout_.NumTiles(unit); tiles > 0; tiles -= (tiles + 15) / 16) {
    choices.push_back(tiles);
  }
  // The most that fit.
  std::partition_point(choices.begin(), choices.end(), [&](int tiles) {
    return !TryChange(draft, [&](Draft& d) { d.turn_tiles = tiles; });
  });
}

// The units that need the most decide how far ahead weights are read everywhere and how long
// updates may take. Among the others the same memory is good for more of both.
void Planner::WorkAheadApart(Draft& draft) const {
  int lookahead = -1, tail = -1;
  for (int i = 0; i < levels_.size(); ++i) {
    const DepthLevel& level = levels_[i];
    // Levels that differ in tile buffers alone are one.
    const bool tried = level.lookahead == lookahead && level.tail == tail;
    lookahead = std::min(level.lookahead, request_.max_lookahead);
    tail = level.tail;
    if (tried || lookahead < draft.lookahead || tail < draft.tail) continue;
    if (TryChange(draft, [&](Draft& d) {
          d.apart_lookahead = lookahead;
          d.apart_tail = tail;
        })) {
      return;
    }
  }
}

// Immediate updates all fall into the backward, while a forward leaves the disk half idle:
// every k-th unit keeps its gradient in host memory and is updated there, where its
// new weights go straight into their use.
void Planner::DeferUpdates(Draft& draft, double share) const {
  TryEach(draft, EvenlySpread(draft, share), parameters_, [](Draft& d, int unit) {
    d.deferred[unit] = true;
    d.placements[unit].gradient = Tier::kHost;
  });
}

// Memory beyond the minimum, in order of what a byte saves.
void Planner::SpendRest(Draft& draft) const {
  // The turns of a step: there, a fetch would have nothing to hide behind. When the
  // user asked for everything on NVMe they stay within a quarter of the parameters.
  const uint64_t limit =
      forced_nvme() ? layout_.TotalPaddedParameters() / 4 : layout_.TotalPaddedParameters();
  uint64_t held = 0;
  auto within = [&](int unit) { return held + layout_.PaddedParameters(unit) <= limit; };
  const auto& ops = request_.schedule.ops;
  const auto find = [&](auto matches) { return std::find_if(ops.begin(), ops.end(), matches); };
  const auto loss = find([](const StepOp& op) { return op.kind == OpKind::kLoss; });
  const int last_unit = loss != ops.end() ? loss->unit : layout_.num_units() - 1;
  for (int i = 0; training() && i < 2; ++i) {
    const int front = i;
    if (!all_deferred() && front < last_unit && builder_.Trains(front) && within(front) &&
        TryChange(draft, [&](Draft& d) { d.carried.insert(front); })) {
      held += layout_.PaddedParameters(front);
    }
    const int back = last_unit - 1 - i;
    if (back <= front) continue;
    // With what it has of frozen parameters.
    const auto forward = find([&](const StepOp& op) { return op.unit == back; });
    for (int unit : forward->weights) {
      if ((unit == back || layout_.frozen(unit)) && within(unit) &&
          TryChange(draft, [&](Draft& d) { d.kept_over_loss.insert(unit); })) {
        held += layout_.PaddedParameters(unit);
      }
    }
  }
  std::vector<int> units;
  for (int unit = 0; all_deferred() && unit < layout_.num_units(); ++unit) {
    if (builder_.Trains(unit) && draft.placements[unit].gradient == Tier::kNvme) {
      units.push_back(unit);
    }
  }
  TryEach(draft, units, parameters_,
          [](Draft& d, int unit) { d.placements[unit].gradient = Tier::kHost; });
  units.clear();
  for (int unit = layout_.num_units() - 1; chooses_activations() && unit >= 0; --unit) {
    if (draft.activations[unit] == Tier::kNvme) units.push_back(unit);
  }
  TryEach(
      draft, units, [&](int unit) { return request_.activation_bytes[unit]; },
      [](Draft& d, int unit) { d.activations[unit] = Tier::kHost; });
  CacheUnits(draft);
}

// Whole units that then never touch storage; the first units first, since their
// updates stand at the turn between two steps.
void Planner::CacheUnits(Draft& draft) const {
  const auto moves_weight = [&](const UnitPlacement& placement) {
    return request_.weights == TierChoice::kAuto && placement.weight == Tier::kNvme;
  };
  const auto moves_optimizer = [&](const UnitPlacement& placement) {
    return request_.optimizer == TierChoice::kAuto && placement.optimizer == Tier::kNvme;
  };
  std::vector<int> units;
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    const UnitPlacement& placement = draft.placements[unit];
    if (moves_weight(placement) || moves_optimizer(placement)) units.push_back(unit);
  }
  // A plane that moves to the device leaves the addresses of its stays to others.
  for (Tier tier : {Tier::kHost, Tier::kDevice, Tier::kHost}) {
    if (tier == Tier::kDevice && request_.separate_device) break;
    units = TryEach(draft, units, parameters_, [&](Draft& d, int unit) {
      UnitPlacement& placement = d.placements[unit];
      const bool optimizer = moves_optimizer(placement);
      if (moves_weight(placement)) placement.weight = tier;
      if (optimizer) placement.optimizer = tier;
      if (optimizer && all_deferred() && placement.gradient == Tier::kNvme) {
        placement.gradient = tier;
      }
      if (optimizer) d.deferred[unit] = false;  // its update keeps no disk busy
      builder_.SetNvmePlanes(unit, placement);
    });
  }
}

absl::Status Planner::VisitSmallest(const std::function<bool(const Draft&)>& visit) const {
  SPILLWAY_CHECK(!request_.schedule.ops.empty());
  ASSIGN_OR_RETURN(Draft smallest, builder_.BaseDraft());
  bool go_on = visit(smallest);
  // Activations on the device take nothing of the host's memory: in the store they take two
  // buffers of it, however many there are.
  for (int unit = layout_.num_units() - 1; chooses_activations() && go_on && unit >= 0; --unit) {
    if (smallest.activations[unit] == Tier::kDevice) continue;
    smallest.activations[unit] = Tier::kDevice;
    if (!request_.has_storage) go_on = visit(smallest);
  }
  if (chooses_activations() && request_.has_storage && go_on) go_on = visit(smallest);
  // In memory without a choice of which: the host's is filled first, then the device's.
  const bool host_then_device = !request_.has_storage && !request_.separate_device &&
                                request_.weights == TierChoice::kAuto &&
                                request_.optimizer == TierChoice::kAuto;
  for (int unit = layout_.num_units() - 1; host_then_device && go_on && unit >= 0; --unit) {
    UnitPlacement& placement = smallest.placements[unit];
    placement.weight = placement.optimizer = placement.gradient = Tier::kDevice;
    go_on = visit(smallest);
  }
  if (chooses_separate_memory() && go_on) {
    PutAllOnDevice(smallest);
    visit(smallest);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<BudgetPair>> Planner::Smallest() const {
  std::vector<BudgetPair> pairs;
  const absl::Status status = VisitSmallest([&](const Draft& draft) {
    pairs.push_back(builder_.Measure(draft));
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
    const BudgetPair needed = builder_.Measure(draft);
    if (std::exchange(first, false)) least = needed;
    fits = Fits(needed);
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

  // A device of its own that has room for all of the state needs nothing copied. There is no
  // room to spare for a part of it: it would be taken from activations and look-ahead.
  if (chooses_separate_memory()) TryChange(smallest, [&](Draft& d) { PutAllOnDevice(d); });
  std::vector<Draft> drafts;
  for (double share : DeviceUpdateShares()) {
    Draft& draft = drafts.emplace_back(smallest);
    StreamUpdates(draft, share);
    KeepActivations(draft);
    // Without room for the tiles it is the first again.
    if (drafts.size() > 1 && draft.streamed == drafts.front().streamed) drafts.pop_back();
  }
  SwapPlan plan = Spend(drafts.front(), request_.deferred_share.value_or(0), levels_.usual());
  const uint64_t copied = plan.traffic.to_device_bytes + plan.traffic.to_host_bytes;
  if (timed() && plan.traffic.written_bytes + copied > 0) {
    plan = Fastest(drafts, std::move(plan));
  }
  plan.min_host_bytes = least.host_bytes;
  CheckPlan(plan);
  SPILLWAY_CHECK(Fits({plan.host_arena_bytes, plan.device_bytes()}));
  return plan;
}

// Those of immediate updates to be tried, each of which defers other units of the draft.
std::vector<double> Planner::DeferredShares(const Draft& draft) const {
  std::vector<double> shares;
  std::vector<int> last;
  const double step = many_units() ? 2 * kShareStep : kShareStep;
  for (double share = step; share <= kMostDeferred; share += step) {
    std::vector<int> units = EvenlySpread(draft, share);
    if (units == last) continue;
    shares.push_back(share);
    last = std::move(units);
  }
  return shares;
}

// Picks among the units whose update goes through the store. The first unit is never picked: its
// gradient is the last to be complete and its forward is the first.
std::vector<int> Planner::EvenlySpread(const Draft& draft, double share) const {
  double due = 0;
  std::vector<int> units;
  for (int unit = 1; unit < layout_.num_units(); ++unit) {
    if (!builder_.Trains(unit) || !draft.placements[unit].any_nvme()) continue;
    due += share;
    if (due < 1) continue;
    due -= 1;
    units.push_back(unit);
  }
  return units;
}

// The fastest of the ways to spend the budgets that the clock can tell apart, beginning with
// `plan`, the result of the same request without a clock. None spills more: the store may be there
// already, with room for that plan.
SwapPlan Planner::Fastest(const std::vector<Draft>& smallest, SwapPlan plan) {
  double least_seconds = SecondsOf(plan);
  // No plan is faster than what it computes.
  const std::vector<double>& computed = request_.clock->op_seconds;
  const double bound_seconds = std::accumulate(computed.begin(), computed.end(), 0.0);
  const auto good_enough = [&] { return bound_seconds > least_seconds * kWorthwhile; };
  uint64_t least_bytes = 0;
  for (const Draft& draft : smallest) {
    least_bytes = std::max(least_bytes, builder_.Measure(draft).host_bytes);
  }
  const SpillRoom room = plan.spill_room;
  const double first_share = request_.deferred_share.value_or(0);
  // Each choice is taken for itself, one after the other, and may turn out worse with more
  // memory: what is planned for a little less is a plan, too.
  const std::vector<int> budgets =
      many_units() ? std::vector<int>{16, 14} : std::vector<int>{16, 15, 14, 12};
  for (int sixteenths : budgets) {
    host_bytes_ = std::max(least_bytes, request_.host_bytes / 16 * sixteenths);
    double share = first_share;
    int level = levels_.usual();
    const Draft* draft = &smallest.front();
    const auto try_plan = [&](const Draft& other_draft, double other_share, int other_level) {
      if (good_enough()) return;
      SwapPlan other = Spend(other_draft, other_share, other_level);
      if (!Covers(room, other.spill_room)) return;
      const double seconds = SecondsOf(other);
      if (seconds > least_seconds * kWorthwhile) return;
      least_seconds = seconds;
      draft = &other_draft;
      share = other_share;
      level = other_level;
      plan = std::move(other);
    };
    // Memory that is not spent on reading ahead everywhere may serve better at the turn, or save
    // transfers. A level that does not fit is the next one that does.
    for (const Draft& other : smallest) {
      if (many_units() && &other != &smallest.front()) {
        try_plan(other, share, level);
        continue;
      }
      int levels = levels_.size();
      for (int next = 0; next < levels && !good_enough();) {
        Draft deepened = other;
        const int fits = Deepen(deepened, next);
        if (next <= levels_.usual() && fits < levels_.chosen_end()) {
          levels = levels_.chosen_end();
        }
        const bool first = next == levels_.usual() && sixteenths == 16 && &other == draft;
        if (!first) try_plan(other, share, fits);
        // Among the deeper levels, take the deepest that fits.
        next = std::max(fits + 1, levels_.usual());
      }
    }
    if (all_deferred() || request_.deferred_share) continue;
    for (double other : DeferredShares(*draft)) try_plan(*draft, other, level);
  }
  host_bytes_ = request_.host_bytes;
  return plan;
}

// The deepest look-ahead that fits, from `begin` on: its level, or levels_.size().
int Planner::Deepen(Draft& draft, int begin) const {
  for (int i = begin; i < levels_.size(); ++i) {
    const DepthLevel& level = levels_[i];
    // More than eight are worth an eighth of the memory: the rest saves transfers.
    if (level.tile_buffers > 8 && level.tile_buffers * layout_.MaxTileBytes() > host_bytes_ / 8) {
      continue;
    }
    if (TryChange(draft, [&](Draft& d) {
          d.lookahead = std::min(level.lookahead, request_.max_lookahead);
          d.tail = level.tail;
          d.tile_buffers =
              std::clamp(level.tile_buffers, 2, std::max(2, request_.max_tile_buffers));
        })) {
      return i;
    }
  }
  return levels_.size();
}

// From the draft that needs least to the plan that makes the most of the budgets.
SwapPlan Planner::Spend(const Draft& smallest, double deferred_share, int level_begin) const {
  Draft draft = smallest;
  Deepen(draft, level_begin);
  const int most_ahead = std::min(request_.max_lookahead, levels_[levels_.usual()].lookahead);
  for (int ahead = most_ahead; training() && ahead > draft.lookahead; --ahead) {
    if (TryChange(draft, [&](Draft& d) { d.forward_lookahead = ahead; })) break;
  }
  while (draft.device_tiles > 0 && draft.device_tiles < kMostDeviceTiles &&
         TryChange(draft, [](Draft& d) { ++d.device_tiles; })) {
  }
  if (!all_deferred()) DeferUpdates(draft, deferred_share);
  SpendRest(draft);
  if (training() && builder_.any_large()) WorkAheadApart(draft);
  // Host memory that is idle at the turn is that of stays, which a separate device has.
  if (request_.read_ahead_at_turn && !request_.separate_device) ReadAheadAtTheTurn(draft);
  return builder_.Build(draft);
}

}  // namespace

absl::StatusOr<SwapPlan> PlanSwaps(const PlanRequest& request, uint64_t* min_host_bytes,
                                   uint64_t* min_device_bytes, const StepTimer& timer) {
  return Planner(request, timer).Run(min_host_bytes, min_device_bytes);
}

absl::StatusOr<std::vector<BudgetPair>> SmallestBudgets(const PlanRequest& request) {
  return Planner(request).Smallest();
}

}  // namespace spillway
