// All of train's own flags, each said once: the command line, its help, completion and man pages
// come from this table. Other programs' names for them: engine/config/other_flags.h.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/config/train_flags.h"

namespace spillway {

struct TrainFlag {
  enum class Rank {
    kOther,
    kUsual,     // in the short help, too
    kRequired,  // likewise; no run without it
  };
  using Field = std::variant<TrainFlags::Text TrainFlags::*,          // with a value
                             std::vector<std::string> TrainFlags::*,  // with several
                             bool TrainFlags::*>;                     // a switch

  const char* name;  // "--micro-batch"
  // The value that follows the flag, as help shows it: "N", "SIZE", "DIR", "bf16|fp16|fp32" (one of
  // these words), "LIST" (words that the command line may separate by commas or spaces),
  // "[true|false]" (it may be left out, which is true); "" of a switch.
  const char* type;
  Field field;
  const char* help;  // with the default in parentheses at its end
  Rank rank = Rank::kOther;
};

struct TrainFlagGroup {
  const char* title;
  std::vector<TrainFlag> flags;
};

// In the order in which help shows them.
const std::vector<TrainFlagGroup>& TrainFlagGroups();

// Null where train has no flag of this name ("--lr").
const TrainFlag* FindTrainFlag(absl::string_view name);

}  // namespace spillway
