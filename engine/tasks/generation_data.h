// Data of tasks that generate texts: texts generated in evaluations.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/config/run_config.h"
#include "engine/datasets/target_dataset.h"
#include "engine/tasks/evaluation_texts.h"
#include "engine/tasks/task.h"

namespace spillway {

// Resolves --generation-max-length. REQUIRES: the longest target is known.
absl::Status ResolveEvaluationTexts(const TransformerConfig& model, RunConfig& config);

// Null without --predict-with-generate. `samples`: the held-out samples whose sources are used;
// null: there are none, which is then an error. `unwritten_from`: tokens from this one on are never
// generated.
absl::StatusOr<std::unique_ptr<EvaluationTexts>> OpenEvaluationTexts(
    const TaskInputs& inputs, TargetDataset* samples,
    std::optional<int64_t> unwritten_from = std::nullopt);

}  // namespace spillway
