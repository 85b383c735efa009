// Writes the state of a run without a commit: its first weights, in every tile.
#pragma once

#include "absl/status/status.h"
#include "engine/train/run_context.h"
#include "engine/train/run_setup.h"
#include "engine/weights/weight_source.h"

namespace spillway {

// Besides, reads the model's buffers. Weights that are read in place (swap/store/in_place.h) are
// not copied, nor checked for finite values. If `weights` reads files, ranks with the same shard
// each read a part of it and send it to each other. kInvalidArgument for a weight that is not
// finite in the run's dtype, kCancelled after a signal. Calls `weights` from several threads.
absl::Status WriteFirstState(const RunContext& context, const RunSetup& setup,
                             WeightSource* weights);

}  // namespace spillway
