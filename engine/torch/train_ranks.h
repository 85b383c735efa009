// What a rank does before its training: meets the others, and agrees with them on what computes.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/machine/device_choice.h"
#include "engine/options/train_options.h"
#include "engine/run/run_storage.h"
#include "engine/torch/model.h"
#include "engine/torch/rank_connection.h"

namespace spillway {

// Which texts evaluations write (TrainHooks).
struct EvaluationTextUse {
  bool makes_texts = false;
  bool writes_samples = false;
};

// Null where the run has one rank. kCancelled where a signal came before it had begun (StopSignal).
// `options`: not resolved any further than the ranks agree on;
// they must be told alike of whatever they exchange something for. `evaluation` may be null;
// `texts`: of it. kFailedPrecondition where the process may not open files enough for the
// connections; up to its hard limit, the soft one is raised.
absl::StatusOr<std::unique_ptr<RankConnection>> ConnectRanks(const TrainOptions& options,
                                                             const Launch& launch,
                                                             const Dataset* evaluation,
                                                             const EvaluationTextUse& texts);

// kFailedPrecondition, the same on every rank, where some compute on a GPU and some on the CPU.
absl::Status AgreeOnDevice(const DeviceChoice& choice, Collectives& world);

}  // namespace spillway
