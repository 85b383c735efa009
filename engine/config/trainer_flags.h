// Translates what other programs say in several flags, or otherwise, into train's own flags.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/config/train_flags.h"

namespace spillway {

// "--bf16", "--bf16 True": a switch as HfArgumentParser reads booleans; `text` is none where it is
// not given, and empty where it stands alone.
absl::StatusOr<bool> SwitchFlag(absl::string_view flag, const TrainFlags::Text& text);

// Puts the settings of other programs (OtherFlag::Kind::kSetting) into train's own fields, and the
// flags that come to nothing into `without_effect`. Returns one kInvalidArgument for each thing
// that is in the way: what is refused, and what contradicts another flag. `warmup_ratio` stays
// where the run's steps are not known: it is then a fraction of them. `lr_scheduler_type` stays:
// a scheduler in --config counts more.
std::vector<absl::Status> TranslateTrainerFlags(TrainFlags* flags);

}  // namespace spillway
