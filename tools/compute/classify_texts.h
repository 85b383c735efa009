// predict for a model that classifies texts.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "tools/compute/text_model.h"
#include "tools/compute_library.h"

namespace spillway {

// Labels every text of task.data, and writes task.out; false where a signal stopped it, with what
// is done kept. REQUIRES: model.config.decoder.classifier.
absl::StatusOr<bool> ClassifyFile(const PredictTask& task, TextModel& model);

// What `scores` [labels], as the model makes them, say: the label, or labels, and a score of each
// by its name.
void AddScores(const torch::Tensor& scores, const ClassifierConfig& classifier,
               nlohmann::ordered_json& row);

// At the end, as task.as_json asks. `what`: "texts".
void PrintClassified(const PredictTask& task, const std::string& what, size_t count,
                     double seconds);

}  // namespace spillway
