// predict for a model that classifies texts.
#pragma once

#include "absl/status/statusor.h"
#include "tools/compute/text_model.h"
#include "tools/compute_library.h"

namespace spillway {

// Labels every text of task.data, and writes task.out; false where a signal stopped it, with what
// is done kept. REQUIRES: model.config.decoder.classifier.
absl::StatusOr<bool> ClassifyFile(const PredictTask& task, TextModel& model);

}  // namespace spillway
