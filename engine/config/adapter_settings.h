// Resolves which adapters are trained.
#pragma once

#include "engine/config/setting_picker.h"

namespace spillway {

void ResolveAdapterSettings(const SettingSources& sources);

}  // namespace spillway
