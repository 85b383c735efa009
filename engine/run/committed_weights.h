// The masters of a run's last commit as a source of weights: to generate from a run.
#pragma once

#include <memory>

#include "engine/run/committed_run.h"
#include "engine/weights/weight_source.h"

namespace spillway {

// Reads tile by tile, verified, and keeps the last few. Any thread. `run` outlives it.
std::unique_ptr<WeightSource> NewCommittedWeights(const CommittedRun* run);

}  // namespace spillway
