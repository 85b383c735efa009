// A step whose state is sharded, as two lists: what computes, on whole units, and what the
// ranks say to one another meanwhile, which is all that the swap manager of a rank sees of it.
// A pure function of values.
//
// One thread takes the actions in order, another computes:
//
//   compute            forward 0      forward 1     ...   backward 1      backward 0
//   actions  gather 0  gather 1       gather 2      ...   sum 2, gather 0    sum 1     sum 0
//
// So what an operation needs is gathered while the one before it computes, and its gradient is
// summed while the one after it does. The order is the same on every rank. A unit's inputs are
// its operation's until an action comes that begins behind it.
#pragma once

#include <cstdint>
#include <vector>

#include "swap/plan/step_schedule.h"

namespace spillway {

struct ShardAction {
  enum class Kind : uint8_t {
    kGather,  // the whole weights of a unit from its shards
    kInputs,  // nothing: a unit's operation is given where its inputs are
    kLoss,    // nothing: here an evaluation's actions end
    kSum,     // the shards of a unit's gradient, over all ranks
  };
  Kind kind = Kind::kGather;
  int unit = 0;
  int stay = -1;  // in weights, or in sums; -1: nothing is exchanged
  // Operations that must have been computed before: what they used may be written to, and
  // what they made is complete.
  int after_ops = 0;
};

// A whole unit in memory: from its gather, or its first gradient, to its last use.
struct WholeStay {
  int unit = 0;
  int first_op = 0;  // of the schedule that computes
  int last_op = 0;
  uint64_t offset = 0;  // in bytes
  uint64_t bytes = 0;
};

// How long a unit's gathered weights stay.
enum class GatheredWeights : uint8_t {
  kForOneUse,   // gathered again for the backward: full sharding
  kForOneStep,  // from the forward to the backward
};

struct ShardedSchedule {
  StepSchedule compute;              // on whole units
  StepSchedule swap;                 // an operation for every action
  std::vector<ShardAction> actions;  // of a training step; an evaluation's end with its kLoss
  // [op of compute] How many actions must be behind before it may begin.
  std::vector<int> needs_actions;
  std::vector<WholeStay> weights;
  std::vector<WholeStay> sums;
  uint64_t whole_bytes = 0;  // of memory for them

  // The stay of a unit's weights, or sums, at an operation.
  const WholeStay& WeightsAt(int unit, int op) const;
  const WholeStay& SumsAt(int unit, int op) const;
};

// `unit_parameters`: padded. REQUIRES: `compute` is a training schedule.
ShardedSchedule BuildShardedSchedule(const StepSchedule& compute, GatheredWeights gathered,
                                     const std::vector<uint64_t>& unit_parameters,
                                     uint64_t weight_bytes);

}  // namespace spillway
