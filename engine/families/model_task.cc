#include "engine/families/model_task.h"

#include <algorithm>

namespace spillway {

const std::vector<std::pair<std::string, ModelTask>>& ModelTasks() {
  static const auto& tasks = *new std::vector<std::pair<std::string, ModelTask>>{
      {"causal-lm", ModelTask::kCausalLm},
      {"seq2seq", ModelTask::kSeq2Seq},
      {"transcribe", ModelTask::kTranscribe},
      {"classify", ModelTask::kClassify},
      {"question-answering", ModelTask::kQuestionAnswering},
      {"masked-lm", ModelTask::kMaskedLm},
      {"classify-image", ModelTask::kClassifyImage}};
  return tasks;
}

const std::string& ModelTaskName(ModelTask task) {
  const auto& tasks = ModelTasks();
  return std::find_if(tasks.begin(), tasks.end(),
                      [&](const auto& one) { return one.second == task; })
      ->first;
}

}  // namespace spillway
