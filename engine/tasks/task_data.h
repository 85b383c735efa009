// The data of a run: training and held-out data, and the texts that evaluations generate.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/options/report_options.h"
#include "engine/options/sample_layout.h"
#include "engine/torch/model.h"
#include "engine/torch/text_maker.h"

namespace spillway {

class TaskData {
 public:
  virtual ~TaskData() = default;

  virtual Dataset* train() const = 0;
  virtual Dataset* evaluation() const = 0;  // null: none

  virtual DatasetSize train_size() const = 0;
  virtual DatasetSize evaluation_size() const = 0;

  // Names and values that must be equal on resume: the layout of the data.
  virtual std::vector<std::pair<std::string, std::string>> Identity() const = 0;

  // The layout of samples, given by a flag or derived from the data.
  virtual SampleLayout layout() const { return SampleLayout::kWindows; }

  // Texts by which evaluations are measured (--predict-with-generate), and samples for people to
  // read (--sample-prompts). Null: none.
  virtual TextMaker* compared_texts() const { return nullptr; }
  virtual SampleWriter* sample_texts() const { return nullptr; }

  // The model's loss with measures of the held-out data, if these need more than its labels. Null:
  // the model's own.
  virtual std::shared_ptr<const LossUnit> measured_loss() const { return nullptr; }

  // Tokens that end texts or turns in the data, and that a language model learns.
  virtual std::vector<int64_t> LearntEnds() const { return {}; }

  // Files of the trained model's directory that describe its input: name and content.
  virtual std::vector<std::pair<std::string, std::string>> ModelFiles() const { return {}; }
};

}  // namespace spillway
