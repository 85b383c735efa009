// What a run learns from and is evaluated on, whatever its model's task.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/options/report_options.h"
#include "engine/torch/model.h"

namespace spillway {

class TaskData {
 public:
  virtual ~TaskData() = default;

  virtual Dataset* train() const = 0;
  virtual Dataset* evaluation() const = 0;  // null: there is none

  virtual DatasetSize train_size() const = 0;
  virtual DatasetSize evaluation_size() const = 0;

  // What of how the data are laid a resumed run must have again.
  virtual std::vector<std::pair<std::string, std::string>> Identity() const = 0;

  // Tokens that end texts or turns, and that a language model learns from the data.
  virtual std::vector<int64_t> LearntEnds() const { return {}; }

  // Files of the trained model's directory that say how its input is made: name and content.
  virtual std::vector<std::pair<std::string, std::string>> ModelFiles() const { return {}; }
};

}  // namespace spillway
