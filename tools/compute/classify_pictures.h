// predict for a model that classifies pictures.
#pragma once

#include "absl/status/statusor.h"
#include "tools/compute/text_model.h"
#include "tools/compute_library.h"

namespace spillway {

// Labels every picture of task.files (pictures, folders of them or of folders of them, CIFAR's
// batches), and writes task.out; false where a signal stopped it, with what is done kept. REQUIRES:
// model.config.resnet.
absl::StatusOr<bool> ClassifyPictures(const PredictTask& task, TextModel& model);

}  // namespace spillway
