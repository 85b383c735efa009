#include "engine/config/task_settings.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace spillway {
namespace {

struct TaskSetting {
  const char* name;
  std::vector<ModelTask> tasks;
  const char* instead = "";  // for the other tasks
};

const std::vector<TaskSetting>& TaskSettings() {
  using enum ModelTask;
  const std::vector<ModelTask> reads_text = {kCausalLm,          kMaskedLm, kClassify,
                                             kQuestionAnswering, kSeq2Seq,  kTranscribe};
  static const auto& settings = *new std::vector<TaskSetting>{
      {"seq-len",
       {kCausalLm, kMaskedLm, kClassify, kQuestionAnswering},
       "; --max-source-length and --max-target-length limit pairs of texts, --max-target-length "
       "the "
       "texts of sounds"},
      {"samples", reads_text},
      {"pad-to-max-length", reads_text},
      {"tokenizer", reads_text},
      {"label-smoothing", {kCausalLm, kMaskedLm, kSeq2Seq, kTranscribe}},
      {"text-keys", {kClassify, kTranscribe}},
      {"label-key", {kClassify}},
      {"doc-stride", {kQuestionAnswering}},
      {"max-answer-length", {kQuestionAnswering}},
      {"null-score-threshold", {kQuestionAnswering}},
      {"source-key", {kSeq2Seq, kTranscribe}},
      {"target-key", {kSeq2Seq, kTranscribe}},
      {"source-prefix", {kSeq2Seq}},
      {"max-source-length", {kSeq2Seq}},
      {"max-target-length", {kSeq2Seq, kTranscribe}},
      {"language", {kTranscribe}},
      {"transcribe-task", {kTranscribe}},
      {"mask-probability", {kMaskedLm}},
      {"predict-with-generate", {kSeq2Seq, kTranscribe}},
      {"sample-prompts", {kCausalLm, kSeq2Seq}},
      {"augment", {kClassifyImage}},
      {"picture-size", {kClassifyImage}}};
  return settings;
}

const TaskSetting* Find(absl::string_view name) {
  for (const TaskSetting& setting : TaskSettings()) {
    if (name == setting.name) return &setting;
  }
  return nullptr;
}

bool Has(const TaskSetting& setting, ModelTask task) {
  return std::count(setting.tasks.begin(), setting.tasks.end(), task) > 0;
}

bool IsOff(const nlohmann::json& value) {
  return value.is_null() || value == false || value == 0 || value == "auto" || value.empty();
}

}  // namespace

bool SettingFitsTask(absl::string_view setting, ModelTask task) {
  const TaskSetting* const found = Find(setting);
  return found == nullptr || Has(*found, task);
}

absl::Status CheckSettingsFitTask(const RunConfig& config, ModelTask task,
                                  absl::string_view model_does) {
  for (const ResolvedValue& value : config.values) {
    const TaskSetting* const setting = Find(value.name);
    if (setting == nullptr || Has(*setting, task) || IsOff(value.value) ||
        !absl::StartsWith(value.source, "--")) {
      continue;
    }
    const auto name = [](std::string* out, ModelTask one) {
      absl::StrAppend(out, ModelTaskName(one));
    };
    return absl::InvalidArgumentError(
        absl::StrCat("--", value.name, " is for --task ", absl::StrJoin(setting->tasks, ", ", name),
                     ", and ", config.model, " ", model_does, setting->instead));
  }
  return absl::OkStatus();
}

}  // namespace spillway
