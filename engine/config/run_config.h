// What train is told, resolved into what the engine needs: flags win over the DeepSpeed
// file, the file wins over defaults, and every value remembers where it came from.
#pragma once

#include "absl/status/statusor.h"
#include "engine/config/resolved_config.h"
#include "engine/config/train_flags.h"
#include "engine/ranks/launch_environment.h"
#include "nlohmann/json.hpp"

namespace spillway {

// kInvalidArgument names the flag (or FILE:LINE and key), what was given and what is
// accepted; kUnimplemented what this build does not do. Reads the config file, nothing
// else: whether model, data and paths exist is found out where they are used.
// `launch`: how this process was started (ReadLaunch); by default by nobody, and --ranks is a
// number of ranks to reckon with.
absl::StatusOr<RunConfig> ResolveRunConfig(const TrainFlags& flags, const Launch& launch = {});

// {"lr": {"value": 5e-05, "source": "default"},
//  "clip": {"value": 0.5, "source": "--clip",
//           "overrides": {"value": 1.0, "source": "ds.json:3"}}, ...}
nlohmann::json ResolvedConfigJson(const RunConfig& config);

// Sets the run's I/O as tuned, recorded as such ("tune") for config.resolved.json.
void TuneRunConfig(RunConfig* config);

}  // namespace spillway
