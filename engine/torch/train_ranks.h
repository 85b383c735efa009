// What a rank does before its training: meets the others, and agrees with them on what computes.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/machine/device_choice.h"
#include "engine/options/train_options.h"
#include "engine/run/gathered_state.h"
#include "engine/run/run_storage.h"
#include "engine/torch/rank_connection.h"

namespace spillway {

// Null where the run has one rank. `options`: not resolved any further than the ranks agree on.
absl::StatusOr<std::unique_ptr<RankConnection>> ConnectRanks(const TrainOptions& options,
                                                             const Launch& launch);

// kFailedPrecondition, the same on every rank, where some compute on a GPU and some on the CPU.
absl::Status AgreeOnDevice(const DeviceChoice& choice, Collectives& world);

}  // namespace spillway
