// The inputs of a trainer: what to train, and the objects that it uses.
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

// Estimated cost of the computation by the model's shape alone (engine/estimate/model_costs.h).
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
  MemoryBudget* device_budget = nullptr;  // counts LibTorch's memory
  Device* device = nullptr;               // computes; null: the host's memory
  RankGroups ranks = {};                  // set if options.ranks is more than one
  // The first weights, of which frozen ones may be read in place. Null: all are copied.
  const WeightSource* weights = nullptr;
  // Refuses runs that are far too large without measuring. None: the shape does not tell.
  std::optional<ComputeGuess> guess = std::nullopt;
  // How long a due commit waits for the copy of the previous one (--persist). After that it is
  // deferred until the copy is complete, so that a slow copy does not delay the steps.
  double copy_patience_seconds = 30;
};

}  // namespace spillway
