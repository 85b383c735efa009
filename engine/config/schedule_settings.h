// Resolves how the learning rate goes: --schedule and --warmup, or the scheduler of a DeepSpeed
// file.
#pragma once

#include "engine/config/setting_picker.h"

namespace spillway {

// REQUIRES: the optimizer is resolved.
void ResolveScheduleSettings(const SettingSources& sources);

}  // namespace spillway
