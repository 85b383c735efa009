// What the data of tasks that generate texts have in common: texts that evaluations generate.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/config/run_config.h"
#include "engine/datasets/target_dataset.h"
#include "engine/tasks/evaluation_texts.h"
#include "engine/tasks/task.h"

namespace spillway {

// Fills in --generation-max-length. REQUIRES: the longest target is known.
absl::Status ResolveEvaluationTexts(const TransformerConfig& model, RunConfig& config);

// Null where no flag asks for texts (--predict-with-generate). `samples`: the held-out samples
// whose sources the texts are made of; null: there are none, which is an error then.
// `unwritten_from`: no token from this one on is written.
absl::StatusOr<std::unique_ptr<EvaluationTexts>> OpenEvaluationTexts(
    const TaskInputs& inputs, TargetDataset* samples,
    std::optional<int64_t> unwritten_from = std::nullopt);

}  // namespace spillway
