// What train is told, resolved into what the engine needs: flags win over the DeepSpeed
// file, the file wins over defaults, and every value remembers where it came from.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/config/resolved_config.h"
#include "engine/config/train_flags.h"
#include "engine/ranks/launch_environment.h"
#include "nlohmann/json.hpp"

namespace spillway {

// kInvalidArgument names the flag (or FILE:LINE and key), what was given and what is
// accepted; kUnimplemented what this build does not do. Reads the config file, and looks where
// paths lead: whether model, data and paths exist is found out where they are used. `launch`: how
// this process was started (ReadLaunch); by default by nobody, and --ranks is a number of ranks to
// reckon with.
absl::StatusOr<RunConfig> ResolveRunConfig(const TrainFlags& flags, const Launch& launch = {});

// Whether the setting ("seq-len") means anything to a run of this task. True for settings that are
// for every task.
bool SettingFitsTask(absl::string_view setting, ModelTask task);

// kInvalidArgument where settings were given that are for other tasks; names them, those tasks and
// the model. `model_does` completes "MODEL ...": "is a language model". A setting that turns
// something off (false, 0, auto) is accepted with every task.
absl::Status CheckSettingsFitTask(const RunConfig& config, ModelTask task,
                                  absl::string_view model_does);

// {"lr": {"value": 5e-05, "source": "default"},
//  "clip": {"value": 0.5, "source": "--clip",
//           "overrides": {"value": 1.0, "source": "ds.json:3"}}, ...}
nlohmann::json ResolvedConfigJson(const RunConfig& config);

// Puts a value that was found out later into `values`, if there is one of that name, for
// config.resolved.json; where it was a default its source becomes "derived". Null: the run has
// none.
void RecordFound(RunConfig* config, absl::string_view name, nlohmann::json value);

// Sets the run's I/O as tuned, recorded as such ("tune") for config.resolved.json.
void TuneRunConfig(RunConfig* config);

}  // namespace spillway
