#include "swap/plan/step_schedule.h"

#include <algorithm>
#include <utility>

#include "io/base/check.h"

namespace spillway {
namespace {

// The units whose parameters `unit` computes with: its own and the borrowed ones.
std::vector<int> UnitsOf(const ScheduleModel& model, int unit) {
  const int num_units = static_cast<int>(std::max(model.borrows.size(), model.trains.size()));
  std::vector<int> units = model.borrows[unit];
  for (int lender : units) SPILLWAY_CHECK(lender >= 0 && lender < num_units);
  units.push_back(unit);
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

// Those of the units that are trained.
std::vector<int> TrainedOf(const ScheduleModel& model, std::vector<int> units) {
  if (model.trains.empty()) return units;
  std::erase_if(units, [&](int unit) { return !model.trains[unit]; });
  return units;
}

StepSchedule ForwardAndLoss(const ScheduleModel& model) {
  SPILLWAY_CHECK(!model.borrows.empty());
  const int last = static_cast<int>(model.borrows.size()) - 1;
  StepSchedule schedule;
  for (int unit = 0; unit <= last; ++unit) {
    StepOp op;
    op.kind = unit < last ? OpKind::kForward : OpKind::kLoss;
    op.unit = unit;
    op.weights = UnitsOf(model, unit);
    schedule.ops.push_back(std::move(op));
  }
  return schedule;
}

}  // namespace

SpanKind SpanKindOf(OpKind kind) {
  switch (kind) {
    case OpKind::kForward:
      return SpanKind::kForward;
    case OpKind::kLoss:
      return SpanKind::kLoss;
    case OpKind::kBackward:
      return SpanKind::kBackward;
  }
  return SpanKind::kForward;
}

absl::string_view OpKindName(OpKind kind) {
  switch (kind) {
    case OpKind::kForward:
      return "forward";
    case OpKind::kLoss:
      return "loss";
    case OpKind::kBackward:
      return "backward";
  }
  return "unknown";
}

StepSchedule BuildTrainSchedule(const ScheduleModel& model, UpdateMode update,
                                MeasurePasses measures) {
  SPILLWAY_CHECK(update == UpdateMode::kDeferred || measures.all() == 0);
  StepSchedule schedule = ForwardAndLoss(model);
  schedule.update = update;
  schedule.measures = measures;
  int first = 0;
  while (first < static_cast<int>(model.borrows.size()) &&
         TrainedOf(model, schedule.ops[first].weights).empty()) {
    ++first;
  }
  SPILLWAY_CHECK(first < static_cast<int>(model.borrows.size()));
  StepOp& loss = schedule.ops.back();
  loss.gradients = TrainedOf(model, loss.weights);
  for (int unit = loss.unit - 1; unit >= first; --unit) {
    StepOp op;
    op.kind = OpKind::kBackward;
    op.unit = unit;
    op.weights = UnitsOf(model, unit);
    op.gradients = TrainedOf(model, op.weights);
    schedule.ops.push_back(std::move(op));
  }
  return schedule;
}

StepSchedule BuildEvaluateSchedule(const ScheduleModel& model) { return ForwardAndLoss(model); }

}  // namespace spillway
