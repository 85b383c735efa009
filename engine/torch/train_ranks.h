// Prepares a rank's training: connects it with the others, and agrees with them on the device.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/machine/device_choice.h"
#include "engine/options/train_options.h"
#include "engine/run/run_storage.h"
#include "engine/torch/model.h"
#include "engine/torch/rank_connection.h"

namespace spillway {

// The texts that evaluations write (TrainHooks).
struct EvaluationTextUse {
  bool makes_texts = false;
  bool writes_samples = false;
};

// Null if the run has one rank. kCancelled if a signal came before it had begun (StopSignal).
// `options`: unresolved except for what the ranks agree on; settings about exchanges must be equal
// on all ranks. `evaluation` may be null; `texts`: its texts. kFailedPrecondition if the process
// may not open enough files for the connections; the soft limit is raised up to the hard limit.
absl::StatusOr<std::unique_ptr<RankConnection>> ConnectRanks(const TrainOptions& options,
                                                             const Launch& launch,
                                                             const Dataset* evaluation,
                                                             const EvaluationTextUse& texts);

// kFailedPrecondition, the same on every rank, if some compute on a GPU and some on the CPU.
absl::Status AgreeOnDevice(const DeviceChoice& choice, Collectives& world);

}  // namespace spillway
