// The schedule of a step: the order of its operations, and for each one the
// weights that it reads and the gradients that it adds to. Plain values; nothing about
// where bytes live. The engine builds one; PlanSwaps and the swap manager follow it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "io/base/span.h"

namespace spillway {

enum class OpKind : uint8_t {
  kForward,   // one unit's forward, all micro-batches
  kLoss,      // the last unit: forward, loss and (in training) its backward
  kBackward,  // recompute and backward of one unit, all micro-batches
};

absl::string_view OpKindName(OpKind kind);
// The name of an operation in a trace.
SpanKind SpanKindOf(OpKind kind);

struct StepOp {
  OpKind kind = OpKind::kForward;
  int unit = 0;
  // Units whose weights this op reads: its own, and those it borrows from. Sorted, distinct.
  std::vector<int> weights;
  // Units into whose gradient sums this op adds. Empty in evaluation. Sorted, distinct.
  std::vector<int> gradients;
  // For a unit whose inputs leave the device: for how many operations, from this one on, the
  // compute side has the inputs' memory, to save them or load them again. 0: another operation is
  // given them.
  int inputs_for_ops = 1;
};

enum class UpdateMode : uint8_t {
  // A unit is updated as soon as its gradient is complete.
  kImmediate,
  // Gradients wait for the global norm; the next forward updates unit by unit.
  kDeferred,
};

// How often TileCompute::Measure passes over all units before any is updated: first over their
// rounded gradients alone, then over gradients and state.
struct MeasurePasses {
  int gradients = 0;
  int states = 0;

  int all() const { return gradients + states; }
  friend bool operator==(const MeasurePasses&, const MeasurePasses&) = default;
};

struct StepSchedule {
  std::vector<StepOp> ops;
  UpdateMode update = UpdateMode::kImmediate;
  MeasurePasses measures = {};  // where updates are deferred
};

// A model as the schedule sees it: for every unit that computes, the other units whose
// parameters it reads (GPT-2's head borrows from the embedding; a unit that is trained in part has
// its frozen parameters in another one, which stands behind those that compute).
struct ScheduleModel {
  std::vector<std::vector<int>> borrows;  // [unit that computes] -> units
  // [unit] Its parameters are trained. Empty: all are.
  std::vector<bool> trains = {};
};

// The forward of all units but the last that computes, then that one with its loss, then the
// backward in reverse, down to the first operation that reads trained parameters. REQUIRES: at
// least one unit; borrowed units exist; something is trained; nothing is measured before immediate
// updates.
StepSchedule BuildTrainSchedule(const ScheduleModel& model, UpdateMode update,
                                MeasurePasses measures = {});

// Forward only, ending in the loss without gradients.
StepSchedule BuildEvaluateSchedule(const ScheduleModel& model);

}  // namespace spillway
