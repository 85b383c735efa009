// The data of a run: what it trains on, what it is evaluated on, and the texts that evaluations
// generate.
#pragma once

#include <cstdint>
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
  virtual Dataset* evaluation() const = 0;  // null: there is none

  virtual DatasetSize train_size() const = 0;
  virtual DatasetSize evaluation_size() const = 0;

  // Names and values that a resumed run must have again: how the data is laid out.
  virtual std::vector<std::pair<std::string, std::string>> Identity() const = 0;

  // The layout of samples, whether a flag named it or the data decided.
  virtual SampleLayout layout() const { return SampleLayout::kWindows; }

  // Texts by which evaluations are measured (--predict-with-generate), and samples for people to
  // read (--sample-prompts). Null: none.
  virtual TextMaker* compared_texts() const { return nullptr; }
  virtual SampleWriter* sample_texts() const { return nullptr; }

  // Tokens that end texts or turns in the data, which a language model learns.
  virtual std::vector<int64_t> LearntEnds() const { return {}; }

  // Files of the trained model's directory that say how its input is made: name and content.
  virtual std::vector<std::pair<std::string, std::string>> ModelFiles() const { return {}; }
};

}  // namespace spillway
