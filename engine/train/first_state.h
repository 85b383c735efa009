// The state of a run that has no commit: its first weights, put into every tile.
#pragma once

#include "absl/status/status.h"
#include "engine/train/run_context.h"
#include "engine/train/run_setup.h"
#include "engine/weights/weight_source.h"

namespace spillway {

// And the model's buffers. What is read in place (swap/store/in_place.h) stays where it lies, and
// nobody looks whether it is finite. Of ranks with the same shard each reads a part of the rest and
// sends it to the others, where `weights` reads files. kInvalidArgument for a weight that is not
// finite in the run's dtype, kCancelled when a signal has come. Calls `weights` from several
// threads.
absl::Status WriteFirstState(const RunContext& context, const RunSetup& setup,
                             WeightSource* weights);

}  // namespace spillway
