// Hugging Face Trainer's flags (transformers 5's TrainingArguments and its example
// scripts), as far as train has the same thing.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/config/train_flags.h"

namespace spillway {

// Another name of a flag, for the same values: {"--max_steps", "--steps"}.
struct FlagAlias {
  std::string alias;
  std::string flag;
};
const std::vector<FlagAlias>& TrainerFlagAliases();

// "--bf16", "--bf16 True": a switch as HfArgumentParser reads booleans; `text` is none where it is
// not given, and empty where it stands alone.
absl::StatusOr<bool> SwitchFlag(absl::string_view flag, const TrainFlags::Text& text);

// Puts what the Trainer says in several flags, or otherwise, into train's own: --bf16 and
// --fp16 (dtype), --adam_beta1 and --adam_beta2 (betas), --adam_epsilon (eps), --max_steps (steps),
// --warmup_ratio (warmup), --packing and --pad-to-max-length (samples); and --task translate.
// kInvalidArgument where they contradict each other or train's own.
absl::Status TranslateTrainerFlags(TrainFlags* flags);

// Of a flag that train does not have: what to do instead, as the end of a sentence;
// empty when it is none of the Trainer's.
std::string TrainerFlagAdvice(absl::string_view flag);
std::vector<std::string> TrainerFlagsWithAdvice();

}  // namespace spillway
