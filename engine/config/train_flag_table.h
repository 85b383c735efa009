// All of train's own settings, each said once: the command line, its help, completion and man
// pages, recipes, bounds and defaults, the tasks that a setting is for, and docs/CONFIG.md come
// from this table. Other programs' names for them: engine/config/other_flags.h.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/config/train_flags.h"
#include "engine/families/model_task.h"

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

  struct Bounds {
    double low = 0;
    double high = 1e30;  // whole numbers end at 2^31
    bool high_included = true;
  };

  const char* name;  // "--micro-batch"
  // The value that follows the flag, as help shows it: "N", "SIZE", "DIR", "bf16|fp16|fp32" (one of
  // these words), "LIST" (words that the command line may separate by commas or spaces),
  // "[true|false]" (it may be left out, which is true); "" of a switch.
  const char* type;
  Field field;
  const char* help;
  // The default, as help shows it; its value is what stands before a ':' or ';'. Where that is no
  // value of the type ("the cores"), the default is found later.
  const char* fallback = "";
  Bounds bounds = {};  // of a number
  Rank rank = Rank::kOther;
  std::vector<ModelTask> tasks = {};  // for which it has a meaning; empty: all

  std::string FullHelp() const;  // with the default in parentheses at its end
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
