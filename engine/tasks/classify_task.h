// Tasks that give labels to texts or to their words: settings and data.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/labelled_samples.h"
#include "engine/tasks/task.h"

namespace spillway {

class ClassifyTask : public Task {
 public:
  ModelTask kind() const override { return ModelTask::kClassify; }
  absl::Status ReadLabels(const RunConfig& config, ModelConfig& model) const override;
  bool AssumeLabels(ModelConfig& model) const override;
  absl::Status Resolve(RunConfig& config, ModelConfig& model) const override;
  absl::Status ExplainShapes(const RunConfig& config, const ModelConfig& model,
                             const TensorNames& names, const SafetensorsModel& files,
                             const absl::Status& error) const override;
  absl::StatusOr<std::unique_ptr<TaskData>> OpenData(const TaskInputs& inputs) const override;
  absl::StatusOr<std::unique_ptr<Dataset>> LargestData(const RunConfig& config,
                                                       const ModelConfig& model,
                                                       const SampleLengths& lengths) const override;
  absl::Status Prepare(const TextRequest& request, TextModel& model) const override;
  absl::StatusOr<std::vector<Prompt>> PromptsOf(const GenerateRequest& request,
                                                TextModel& model) const override;

  // The samples of some files.
  virtual absl::StatusOr<std::unique_ptr<LabelledSamples>> ReadSamples(
      const std::vector<std::string>& files, const TransformerConfig& model,
      const LabelledSamplesOptions& options) const = 0;
  // The name of what is learnt, for the run's identity.
  virtual std::string Problem(const ClassifierConfig& classifier) const = 0;
  // Whether every token has a label, and not the text.
  virtual bool labels_tokens() const = 0;
};

// The error of shapes where a head tells another number of labels apart than `classifier`;
// otherwise `error`.
absl::Status ExplainHead(const std::string& model, const ClassifierConfig& classifier,
                         const TensorNames& names, const SafetensorsModel& files,
                         const absl::Status& error);

// "DIR classifies texts and continues none": the error of `generate`.
absl::Status GeneratesNone(const TextRequest& request, const Task& task);

}  // namespace spillway
