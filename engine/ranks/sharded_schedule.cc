#include "engine/ranks/sharded_schedule.h"

#include <algorithm>
#include <map>
#include <set>

#include "io/base/check.h"
#include "swap/plan/stay_packing.h"

namespace spillway {
namespace {

// Weights used again within this number of operations are not gathered twice.
constexpr int kShortGap = 2;

const WholeStay& Find(const std::vector<WholeStay>& stays, int unit, int op) {
  const auto found = std::find_if(stays.begin(), stays.end(), [&](const WholeStay& stay) {
    return stay.unit == unit && stay.first_op <= op && op <= stay.last_op;
  });
  SPILLWAY_CHECK(found != stays.end());
  return *found;
}

void FindStays(ShardedSchedule& schedule, int num_units, GatheredWeights gathered) {
  const int gap = gathered == GatheredWeights::kForOneUse ? kShortGap : INT32_MAX;
  std::vector<int> weights(num_units, -1), sums(num_units, -1);
  const auto use = [](int unit, int op, int most_gap, int& stay, std::vector<WholeStay>& stays) {
    if (stay < 0 || op - stays[stay].last_op > most_gap) {
      stay = static_cast<int>(stays.size());
      stays.push_back({unit, op, op});
    }
    stays[stay].last_op = op;
  };
  const std::vector<StepOp>& ops = schedule.compute.ops;
  for (int op = 0; op < static_cast<int>(ops.size()); ++op) {
    for (int unit : ops[op].weights) use(unit, op, gap, weights[unit], schedule.weights);
    for (int unit : ops[op].gradients) use(unit, op, INT32_MAX, sums[unit], schedule.sums);
  }
}

void Pack(ShardedSchedule& schedule) {
  // Weights arrive during the operation before; sums leave during the next one.
  std::vector<PackedBuffer> buffers;
  for (const WholeStay& stay : schedule.weights) {
    buffers.push_back({{std::max(0, stay.first_op - 1), stay.last_op}, stay.bytes});
  }
  for (const WholeStay& stay : schedule.sums) {
    buffers.push_back({{stay.first_op, stay.last_op + 1}, stay.bytes});
  }
  // No buffer is in use at the turn of two steps.
  schedule.whole_bytes = PackBuffers(static_cast<int>(schedule.compute.ops.size()) + 2, buffers);
  for (size_t i = 0; i < schedule.weights.size(); ++i) {
    schedule.weights[i].offset = buffers[i].offset;
  }
  for (size_t i = 0; i < schedule.sums.size(); ++i) {
    schedule.sums[i].offset = buffers[schedule.weights.size() + i].offset;
  }
}

}  // namespace

const WholeStay& ShardedSchedule::WeightsAt(int unit, int op) const {
  return Find(weights, unit, op);
}

const WholeStay& ShardedSchedule::SumsAt(int unit, int op) const { return Find(sums, unit, op); }

ShardedSchedule BuildShardedSchedule(const StepSchedule& compute, GatheredWeights gathered,
                                     const std::vector<uint64_t>& unit_parameters,
                                     uint64_t weight_bytes) {
  ShardedSchedule schedule;
  schedule.compute = compute;
  schedule.swap.update = compute.update;
  schedule.swap.measures = compute.measures;
  FindStays(schedule, static_cast<int>(unit_parameters.size()), gathered);
  for (WholeStay& stay : schedule.weights) stay.bytes = unit_parameters[stay.unit] * weight_bytes;
  for (WholeStay& stay : schedule.sums) stay.bytes = unit_parameters[stay.unit] * sizeof(float);
  Pack(schedule);

  const int num_ops = static_cast<int>(compute.ops.size());
  std::set<int> backwards;  // units with a backward
  for (const StepOp& op : compute.ops) {
    if (op.kind == OpKind::kBackward) backwards.insert(op.unit);
  }
  std::map<int, int> inputs_of;  // operation that computes -> action
  bool backward = false;
  const auto add = [&](const ShardAction& action) {
    StepOp op;
    op.kind = backward ? OpKind::kBackward : OpKind::kForward;
    if (action.kind == ShardAction::Kind::kLoss) op.kind = OpKind::kLoss;
    op.unit = action.unit;
    op.inputs_for_ops = action.kind == ShardAction::Kind::kInputs ? 1 : 0;
    if (action.kind == ShardAction::Kind::kGather) op.weights = {action.unit};
    if (action.kind == ShardAction::Kind::kSum) op.gradients = {action.unit};
    schedule.swap.ops.push_back(std::move(op));
    schedule.actions.push_back(action);
  };
  // Two operations past the end belong to the last sums.
  for (int op = 0; op < num_ops + 2; ++op) {
    for (size_t i = 0; i < schedule.sums.size(); ++i) {
      if (schedule.sums[i].last_op != op - 2) continue;
      add({ShardAction::Kind::kSum, schedule.sums[i].unit, static_cast<int>(i), op - 1});
    }
    if (op >= num_ops) continue;
    for (size_t i = 0; i < schedule.weights.size(); ++i) {
      if (schedule.weights[i].first_op != op) continue;
      add({ShardAction::Kind::kGather, schedule.weights[i].unit, static_cast<int>(i),
           std::max(0, op - 1)});
    }
    if (backwards.count(compute.ops[op].unit) > 0) {
      inputs_of[op] = static_cast<int>(schedule.actions.size());
      add({ShardAction::Kind::kInputs, compute.ops[op].unit, -1, std::max(0, op - 1)});
    }
    schedule.needs_actions.push_back(static_cast<int>(schedule.actions.size()));
    if (compute.ops[op].kind == OpKind::kLoss) {
      // Placed after the start of the computation, when the update has been announced.
      add({ShardAction::Kind::kLoss, compute.ops[op].unit, -1, std::max(1, op)});
      backward = true;
    }
  }
  for (const auto& [op, action] : inputs_of) {
    // The last sum of a step begins after all of its operations.
    int last = action;
    while (schedule.actions[last].after_ops <= op) ++last;
    schedule.swap.ops[action].inputs_for_ops = last - action + 1;
  }
  return schedule;
}

}  // namespace spillway
