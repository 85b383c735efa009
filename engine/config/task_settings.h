// Which settings of a run are for which tasks.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/config/resolved_config.h"
#include "engine/families/model_task.h"

namespace spillway {

// Whether the setting ("seq-len") means anything to a run of this task. True for settings that are
// for every task.
bool SettingFitsTask(absl::string_view setting, ModelTask task);

// kInvalidArgument where a flag was given that is for other tasks; names the flag, those tasks and
// the model. `model_does` completes "MODEL ...": "is a language model". A flag that turns something
// off (false, 0, auto) is accepted with every task.
absl::Status CheckSettingsFitTask(const RunConfig& config, ModelTask task,
                                  absl::string_view model_does);

}  // namespace spillway
