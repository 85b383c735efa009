// predict for a masked language model.
#pragma once

#include "absl/status/statusor.h"
#include "tools/compute/text_model.h"
#include "tools/compute_library.h"

namespace spillway {

// Finds the likeliest tokens for every mask in the texts of task.data, and writes task.out; false
// where a signal stopped it, with what is done kept. REQUIRES: model.config.transformer.masked.
absl::StatusOr<bool> FillMasksOfFile(const PredictTask& task, TextModel& model);

}  // namespace spillway
