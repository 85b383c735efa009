#include "engine/options/train_options.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "swap/plan/state_layout.h"

namespace spillway {

absl::Status ValidateTrainOptions(const TrainOptions& options) {
  struct Number {
    const char* name;
    double value, least;
  };
  const Number numbers[] = {
      {"micro_batch", static_cast<double>(options.micro_batch), 1},
      {"accumulate", static_cast<double>(options.accumulate), 1},
      {"steps", static_cast<double>(options.steps), 0},
      {"epochs", options.epochs, 0},
      {"threads", static_cast<double>(options.threads), 0},
      {"update_threads", static_cast<double>(options.update_threads), 0},
      {"clip", options.clip, 0},
      {"label_smoothing", options.label_smoothing, 0},
      {"eval_every", static_cast<double>(options.eval_every), 0},
      {"commit_every", static_cast<double>(options.commit_every), 0},
      {"commit_seconds", options.commit_seconds, 0},
      {"commit_cost_part", options.commit_cost_part, 0},
      {"keep", static_cast<double>(options.keep), options.persist.empty() ? 0.0 : 1.0},
      {"ranks", static_cast<double>(options.ranks), 1},
      {"rank", static_cast<double>(options.rank), 0},
  };
  for (const Number& number : numbers) {
    if (std::isfinite(number.value) && number.value >= number.least) continue;
    return absl::InvalidArgumentError(absl::StrCat("TrainOptions::", number.name, " is ",
                                                   number.value, ": give a number from ",
                                                   number.least, " on"));
  }
  if (options.rank >= options.ranks) {
    return absl::InvalidArgumentError(absl::StrCat("TrainOptions::rank is ", options.rank, " of ",
                                                   options.ranks, ": ranks are counted from 0"));
  }
  if (options.tile_parameters % kParameterAlignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat("TrainOptions::tile_parameters is ",
                                                   options.tile_parameters, ": give a multiple of ",
                                                   kParameterAlignment, ", or 0 for the default"));
  }
  return absl::OkStatus();
}

}  // namespace spillway
