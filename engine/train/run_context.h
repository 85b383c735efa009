// What a trainer is given: what to train, and those that work for it.
#pragma once

#include <optional>

#include "engine/model/model_description.h"
#include "engine/model/step_compute.h"
#include "engine/options/train_options.h"
#include "engine/ranks/collectives.h"
#include "engine/run/run_storage.h"
#include "engine/weights/weight_source.h"
#include "swap/device/device.h"
#include "swap/device/memory_budget.h"

namespace spillway {

// What computing takes by the model's shape alone (engine/estimate/model_costs.h).
struct ComputeGuess {
  ComputeMemory memory;
  double dry_run_seconds = 0;
};

struct RunContext {
  TrainOptions options;
  ModelDescription model;
  // These outlive the trainer.
  RunStorage* storage = nullptr;  // open
  StepCompute* compute = nullptr;
  MemoryBudget* device_budget = nullptr;  // that LibTorch's memory is counted against
  Device* device = nullptr;               // on which `compute` computes; null: in the host's memory
  RankGroups ranks = {};                  // where options.ranks is more than one
  // The first weights: what of them is frozen may be read where it lies. Null: all is copied.
  const WeightSource* weights = nullptr;
  // For runs that don't fit by far, which are refused by it. None: the shape doesn't tell.
  std::optional<ComputeGuess> guess = std::nullopt;
  // How long a commit that is due waits for the copy of the one before (--persist). It is put off
  // after that, until the copy is made: whoever copies slowly must not hold up the steps.
  double copy_patience_seconds = 30;
};

}  // namespace spillway
