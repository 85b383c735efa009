// The tasks of models, as --task names them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace spillway {

enum class ModelTask {
  kCausalLm,
  kSeq2Seq,
  kTranscribe,
  kClassify,
  kQuestionAnswering,
  kMaskedLm,
  kClassifyImage
};

// All tasks with their names: "causal-lm", ...
const std::vector<std::pair<std::string, ModelTask>>& ModelTasks();
const std::string& ModelTaskName(ModelTask task);

}  // namespace spillway
