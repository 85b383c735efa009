#include "tools/compute/classify_pictures.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/datasets/picture_dataset.h"
#include "io/base/status.h"
#include "io/file_system.h"
#include "tools/compute/classify_texts.h"
#include "tools/compute/encoder_answers.h"
#include "tools/compute/picture_data.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

ordered_json PictureRow(const LabelledPictures::Name& name, const torch::Tensor& scores,
                        const ClassifierConfig& classifier) {
  ordered_json row = {{"picture", name.file}};
  if (name.record) row["record"] = *name.record;
  AddScores(scores, classifier, row);
  return row;
}

// Bytes of what a picture is where it is largest: behind the first convolution, or as it comes.
uint64_t LargestHiddenBytes(const ResNetConfig& config, const PictureSize& size) {
  const int64_t points = size.width * size.height;
  const int64_t most = std::max({config.channels * points, config.embedding * points / 4,
                                 config.hidden.front() * points / 16});
  return static_cast<uint64_t>(most) * sizeof(float);
}

}  // namespace

absl::StatusOr<bool> ClassifyPictures(const PredictTask& task, TextModel& model) {
  const ResNetConfig& config = *model.config.resnet;
  if (!task.prompt_key.empty() || task.chat || !task.text_keys.texts.empty() ||
      !task.text_keys.label.empty() || task.max_length) {
    return absl::InvalidArgumentError(
        absl::StrCat("--prompt-key, --chat, --text-keys, --label-key and --seq-len are for models "
                     "of texts, and ",
                     task.model, " classifies pictures"));
  }
  LabelledPicturesOptions options;
  options.labels = config.classifier.labels;
  options.evaluated = options.any_pictures = true;
  options.scratch_directory = TemporaryDirectory();
  ASSIGN_OR_RETURN(const auto pictures, LabelledPictures::Open(task.files, options));
  ASSIGN_OR_RETURN(const PictureProcessing processing,
                   ResolveProcessing(model.files, 0, pictures->is_cifar(), config));
  PictureDataset data(pictures.get(), {processing, config.channels, Augment::kNone, 0});
  BatchedRows rows;
  rows.kind = "pictures";
  rows.count = pictures->size();
  rows.fingerprint = data.fingerprint();
  rows.batch = [&](absl::Span<const int64_t> numbers) { return data.Get(numbers); };
  rows.hidden_bytes = [bytes = LargestHiddenBytes(config, processing.size)](int64_t) {
    return bytes;
  };
  return AnswerInBatches(
      task, model, rows, "pictures classified",
      [&](ForwardPass&, const std::vector<int64_t>& numbers,
          const std::vector<torch::Tensor>& scores) -> absl::StatusOr<std::vector<ordered_json>> {
        std::vector<ordered_json> answers;
        for (size_t i = 0; i < numbers.size(); ++i) {
          answers.push_back(PictureRow(pictures->name(numbers[i]), scores[i], config.classifier));
        }
        return answers;
      });
}

}  // namespace spillway
