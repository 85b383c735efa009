// The data of a run whose training and held-out files are read alike.
#pragma once

#include "engine/tasks/task.h"
#include "io/base/status.h"

namespace spillway {

// Part: has `dataset` (a pointer, null while there is none) and Size().
template <typename Part>
class SampledData : public TaskData {
 public:
  Dataset* train() const override { return train_.dataset.get(); }
  Dataset* evaluation() const override { return evaluation_.dataset.get(); }
  DatasetSize train_size() const override { return train_.dataset ? train_.Size() : DatasetSize(); }
  DatasetSize evaluation_size() const override {
    return evaluation_.dataset ? evaluation_.Size() : DatasetSize();
  }

 protected:
  explicit SampledData(const TaskInputs& inputs)
      : inputs_(inputs), config_(inputs.config), model_(inputs.model.transformer) {}

  // Reads both: read(files, part), then open(part, beside) for the datasets, the held-out one
  // first. `beside`: the held-out part, for the training dataset; null where there is none.
  template <typename Read, typename OpenDataset>
  absl::Status OpenParts(const Read& read, const OpenDataset& open) {
    RETURN_IF_ERROR(read(config_.data, train_));
    const bool evaluates = !config_.eval_data.empty();
    if (evaluates) {
      RETURN_IF_ERROR(read(config_.eval_data, evaluation_));
      open(evaluation_, nullptr);
    }
    open(train_, evaluates ? &evaluation_ : nullptr);
    return absl::OkStatus();
  }

  const TaskInputs inputs_;
  const RunConfig& config_;
  const TransformerConfig& model_;
  Part train_, evaluation_;
};

}  // namespace spillway
