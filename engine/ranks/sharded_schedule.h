// A step on sharded state as two schedules: the computation on whole units, and the ranks'
// exchanges, which are all that a rank's swap manager sees of the step. A pure function of values.
//
// One thread takes the actions in order, another one computes:
//
//   compute            forward 0      forward 1     ...   backward 1      backward 0
//   actions  gather 0  gather 1       gather 2      ...   sum 2, gather 0    sum 1     sum 0
//
// An operation's weights are gathered while the operation before it computes, and its gradient is
// summed while the next one computes. The order is the same on every rank. A unit's inputs belong
// to its operation until an action begins after it.
#pragma once

#include <cstdint>
#include <vector>

#include "swap/plan/step_schedule.h"

namespace spillway {

struct ShardAction {
  enum class Kind : uint8_t {
    kGather,  // the whole weights of a unit from its shards
    kInputs,  // no exchange: tells an operation where its unit's inputs are
    kLoss,    // no exchange: an evaluation's actions end here
    kSum,     // the shards of a unit's gradient, over all ranks
  };
  Kind kind = Kind::kGather;
  int unit = 0;
  int stay = -1;  // index in weights or sums; -1: nothing is exchanged
  // Operations that must have been computed before: the memory they used is free and their results
  // are complete.
  int after_ops = 0;
};

// Lifetime of a whole unit in memory: from its gather, or its first gradient, to its last use.
struct WholeStay {
  int unit = 0;
  int first_op = 0;  // in the schedule of the computation
  int last_op = 0;
  uint64_t offset = 0;  // in bytes
  uint64_t bytes = 0;
};

// How long a unit's gathered weights stay in memory.
enum class GatheredWeights : uint8_t {
  kForOneUse,   // gathered again for the backward: full sharding
  kForOneStep,  // from the forward to the backward
};

struct ShardedSchedule {
  StepSchedule compute;              // on whole units
  StepSchedule swap;                 // one operation per action
  std::vector<ShardAction> actions;  // of a training step; an evaluation's end with its kLoss
  // [op of compute] Number of actions that must be complete before the operation may begin.
  std::vector<int> needs_actions;
  std::vector<WholeStay> weights;
  std::vector<WholeStay> sums;
  uint64_t whole_bytes = 0;  // memory for them

  // The stay of a unit's weights, or sums, at an operation.
  const WholeStay& WeightsAt(int unit, int op) const;
  const WholeStay& SumsAt(int unit, int op) const;
};

// `unit_parameters`: padded. REQUIRES: `compute` is a training schedule.
ShardedSchedule BuildShardedSchedule(const StepSchedule& compute, GatheredWeights gathered,
                                     const std::vector<uint64_t>& unit_parameters,
                                     uint64_t weight_bytes);

}  // namespace spillway
