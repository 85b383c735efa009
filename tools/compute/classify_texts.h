// predict for a model that classifies texts, or their words.
#pragma once

#include "absl/status/statusor.h"
#include "tools/compute/text_model.h"
#include "tools/compute_library.h"

namespace spillway {

// Labels every text of task.data, or each of its words, and writes task.out; false where a signal
// stopped it, with what is done kept. REQUIRES: model.config.transformer.classifier, of texts and
// of tokens.
absl::StatusOr<bool> ClassifyFile(const PredictTask& task, TextModel& model);
absl::StatusOr<bool> ClassifyWordsOfFile(const PredictTask& task, TextModel& model);

// What `scores` [labels], as the model makes them, say: the label, or labels, and a score of each
// by its name.
void AddScores(const torch::Tensor& scores, const ClassifierConfig& classifier,
               nlohmann::ordered_json& row);

}  // namespace spillway
