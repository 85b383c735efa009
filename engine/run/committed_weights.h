// The masters of a run's last commit as a source of weights, for generation from a run.
#pragma once

#include <memory>

#include "engine/run/committed_run.h"
#include "engine/weights/weight_source.h"

namespace spillway {

// Reads tile by tile, verified, and caches the last few. Any thread. `run` outlives the result.
std::unique_ptr<WeightSource> NewCommittedWeights(const CommittedRun* run);

}  // namespace spillway
