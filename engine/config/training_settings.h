// Resolves what the run trains with: batch, length, precision, optimizer, learning rate, update.
#pragma once

#include "engine/config/setting_picker.h"

namespace spillway {

// REQUIRES: the number of ranks is resolved (engine/config/rank_settings.h).
void ResolveTrainingSettings(const SettingSources& sources);

}  // namespace spillway
