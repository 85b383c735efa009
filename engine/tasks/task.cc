#include "engine/tasks/task.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/tasks/all_tasks.h"
#include "io/base/check.h"
#include "io/file_system.h"

namespace spillway {

const std::vector<const Task*>& Tasks() {
  static const auto& tasks = *new std::vector<const Task*>{
      CausalLm(),      Seq2Seq(),           Transcribe(), ClassifyTexts(),
      ClassifyWords(), QuestionAnswering(), MaskedLm(),   ClassifyPictures()};
  return tasks;
}

const Task& TaskOf(const ModelConfig& model) {
  const auto fits = [&](const Task* task) { return task->Fits(model); };
  const auto found = std::find_if(Tasks().begin(), Tasks().end(), fits);
  SPILLWAY_CHECK(found != Tasks().end());
  return **found;
}

absl::Status ResolveLength(absl::string_view flag, int64_t positions, int64_t usual,
                           int64_t* length) {
  if (*length == 0) *length = std::min(positions, usual);
  if (*length <= positions) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", *length, " is more than the ", positions, " positions of the model"));
}

absl::Status RefusePacking(const RunConfig& config, absl::string_view samples) {
  if (config.samples != SampleLayout::kPacked) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--packing (--samples packed) is for language models: ", samples, " are padded"));
}

std::string ScratchDirectory(const std::string& output) {
  FileSystem& files = FileSystem::Real();
  for (std::string path = files.Resolve(output);; path = ParentPath(path)) {
    const auto found = files.Stat(path, SymbolicLink::kFollow);
    if (found.ok() && found->kind == FileInfo::Kind::kDirectory) return path;
    if (!found.ok() && !absl::IsNotFound(found.status())) return ".";  // train refuses OUTPUT
  }
}

}  // namespace spillway
