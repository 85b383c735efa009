#include "tools/compute/classify_pictures.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "engine/torch/forward_pass.h"
#include "engine/torch/picture_dataset.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "tools/compute/answer_file.h"
#include "tools/compute/classify_texts.h"
#include "tools/compute/encoder_answers.h"
#include "tools/compute/picture_data.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

// What answers depend on.
ordered_json PictureIdentity(const PredictTask& task, const TextModel& model, const Dataset& data) {
  return {{"model", task.model},
          {"weights", model.weights_name},
          {"pictures", data.fingerprint()},
          {"dtype", std::string(DTypeName(task.dtype.value_or(model.dtype)))},
          {"compute", task.compute ? std::string(DTypeName(*task.compute)) : "auto"}};
}

ordered_json PictureRow(const LabelledPictures::Name& name, const torch::Tensor& scores,
                        const ClassifierConfig& classifier) {
  ordered_json row = {{"picture", name.file}};
  if (name.record) row["record"] = *name.record;
  AddScores(scores, classifier, row);
  return row;
}

// Bytes of what a batch of so many is where it is largest: behind the first convolution, or as it
// comes.
uint64_t LargestHiddenBytes(const ResNetConfig& config, const PictureSize& size, int64_t batch) {
  const int64_t points = size.width * size.height;
  const int64_t most = std::max({config.channels * points, config.embedding * points / 4,
                                 config.hidden.front() * points / 16});
  return static_cast<uint64_t>(most * batch) * sizeof(float);
}

// False where a signal came.
absl::StatusOr<bool> LabelPictures(const PredictTask& task, const ResNetConfig& config,
                                   const LabelledPictures& pictures, Dataset& data,
                                   uint64_t hidden_bytes, ForwardPass& pass, AnswerFile& answers) {
  std::vector<int64_t> left;
  for (int64_t i = 0; i < pictures.size(); ++i) {
    if (!answers.Has(i)) left.push_back(i);
  }
  Progress progress("classifying", pictures.size(), static_cast<int64_t>(answers.size()));
  const int64_t at_once = pass.batches_at_once(hidden_bytes) * task.batch;
  for (size_t first = 0; first < left.size(); first += at_once) {
    if (StopSignal::received() != 0) return false;
    const size_t end = std::min(left.size(), first + at_once);
    std::vector<Batch> batches;
    for (size_t i = first; i < end; i += task.batch) {
      const size_t count = std::min<size_t>(task.batch, end - i);
      ASSIGN_OR_RETURN(Batch batch, data.Get(absl::MakeSpan(left).subspan(i, count)));
      batches.push_back(std::move(batch));
    }
    ASSIGN_OR_RETURN(const std::vector<torch::Tensor> scores, pass.Run(batches));
    const torch::Tensor all = torch::cat(scores);
    std::vector<std::pair<int64_t, ordered_json>> rows;
    for (size_t i = first; i < end; ++i) {
      rows.emplace_back(left[i],
                        PictureRow(pictures.name(left[i]), all[static_cast<int64_t>(i - first)],
                                   config.classifier));
    }
    RETURN_IF_ERROR(answers.AddAll(rows));
    progress.Update(static_cast<int64_t>(answers.size()));
  }
  return true;
}

}  // namespace

absl::StatusOr<bool> ClassifyPictures(const PredictTask& task, TextModel& model) {
  const ResNetConfig& config = *model.config.resnet;
  if (!task.prompt_key.empty() || task.chat || !task.text_keys.texts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--prompt-key, --chat and --text-keys are for models of texts, and ",
                     task.model, " classifies pictures"));
  }
  LabelledPicturesOptions options;
  options.labels = config.classifier.labels;
  options.evaluated = options.any_pictures = true;
  ASSIGN_OR_RETURN(const auto pictures, LabelledPictures::Open(task.files, options));
  ASSIGN_OR_RETURN(const PictureProcessing processing,
                   ResolveProcessing(model.files, 0, pictures->is_cifar(), config));
  PictureDataset data(pictures.get(), {processing, config.channels, Augment::kNone, 0});
  ASSIGN_OR_RETURN(const ComputeSettings settings, OpenComputeFor(task, model));
  ASSIGN_OR_RETURN(const auto answers,
                   AnswerFile::Open(task.out, PictureIdentity(task, model, data)));
  const auto start = std::chrono::steady_clock::now();
  ForwardPass pass(model.model, model.weights.get(), ForwardOptionsOf(task, settings, model));
  ASSIGN_OR_RETURN(
      const bool whole,
      LabelPictures(task, config, *pictures, data,
                    LargestHiddenBytes(config, processing.size, task.batch), pass, *answers));
  if (!whole) {
    LogInfo(absl::StrCat("stopped by ", StopSignal::Name(StopSignal::received()), " after ",
                         answers->size(), " of ", pictures->size(), " pictures, which ", task.out,
                         ".partial keeps: the same command goes on"));
    return false;
  }
  RETURN_IF_ERROR(answers->Finish());
  PrintDone(task, static_cast<size_t>(pictures->size()), "pictures classified",
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return true;
}

}  // namespace spillway
