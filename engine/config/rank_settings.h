// Resolves how many ranks train together, and what each keeps of the state.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "engine/config/setting_picker.h"

namespace spillway {

void ResolveRankSettings(const SettingSources& sources);

// --ranks, where it was given.
absl::StatusOr<std::optional<int>> RanksFlag(const TrainFlags& flags);

}  // namespace spillway
