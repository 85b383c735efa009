// classify-image: models that give labels to pictures.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "engine/data/data_file.h"
#include "engine/data/labelled_pictures.h"
#include "engine/datasets/picture_dataset.h"
#include "engine/tasks/all_tasks.h"
#include "engine/tasks/classify_task.h"
#include "engine/tasks/encoder_answers.h"
#include "engine/tasks/text_model.h"
#include "engine/tasks/zero_dataset.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

constexpr char kProcessorFile[] = "preprocessor_config.json";
constexpr int64_t kCifarSide = 32;
constexpr const char* kLabelKeys[] = {"id2label", "label2id", "num_labels", "_num_labels"};

bool AreUnnamed(const std::vector<std::string>& labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != absl::StrCat("LABEL_", i)) return false;
  }
  return true;
}

bool AreAllIn(const std::vector<std::string>& labels, const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return std::find(labels.begin(), labels.end(), name) != labels.end();
  });
}

void NameLabels(const std::vector<std::string>& names, ModelConfig& model) {
  model.resnet->classifier.labels = names;
  model.resnet->classifier.problem = ClassifierProblem::kSingleLabel;
  model.shape = ShapeOf(*model.resnet);
  for (const char* key : kLabelKeys) model.original.erase(key);
  for (size_t i = 0; i < names.size(); ++i) {
    model.original["id2label"][absl::StrCat(i)] = names[i];
    model.original["label2id"][names[i]] = i;
  }
}

const char* NameOf(Augment augment) { return augment == Augment::kCropFlip ? "crop-flip" : "none"; }

// The size and the numbers to which `directory` says pictures are brought; where it says nothing,
// the whole of CIFAR's, or of others the middle of `side` points a side. `side` above 0 wins.
// kInvalidArgument where neither says a size.
absl::StatusOr<PictureProcessing> ResolveProcessing(const std::string& directory, int64_t side,
                                                    bool is_cifar, const ResNetConfig& model) {
  ASSIGN_OR_RETURN(std::optional<PictureProcessing> found, ReadPictureProcessing(directory, side));
  if (!found && is_cifar) found = PlainProcessing(side > 0 ? side : kCifarSide);
  if (!found && side > 0) found = MiddleProcessing(side);
  if (!found) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, " has no ", kProcessorFile,
                     ", which says how large pictures are: give --picture-size (224 is usual)"));
  }
  for (const auto& [numbers, key] :
       {std::pair{&found->mean, "image_mean"}, {&found->std, "image_std"}}) {
    const auto count = static_cast<int64_t>(numbers->size());
    if (count == 1 || count == model.channels) continue;
    return absl::InvalidArgumentError(absl::StrCat(directory, "/", kProcessorFile, ": ", key,
                                                   " has ", count, " numbers, and the model ",
                                                   model.channels, " channels"));
  }
  if (model.channels != 1 && model.channels != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, "/config.json: num_channels is ", model.channels,
                     "; pictures have 3 channels (colours) or 1 (grey)"));
  }
  return *std::move(found);
}

// kInvalidArgument where the last layer makes one number a channel of such a micro-batch.
absl::Status CheckNorms(const PictureProcessing& processing, int64_t micro_batch,
                        const ResNetConfig& model) {
  const PictureSize& size = processing.size;
  if (micro_batch * model.LastSide(size.width) * model.LastSide(size.height) > 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--micro-batch 1: of one picture of ", size.width, " x ", size.height,
      " points the last layer makes one number a channel, which has no variance for its batch "
      "norm: give --micro-batch 2 or more, or larger pictures"));
}

class PictureData : public TaskData {
 public:
  absl::Status Open(const RunConfig& config, const ResNetConfig& model);

  Dataset* train() const override { return train_.get(); }
  Dataset* evaluation() const override { return evaluation_.get(); }
  DatasetSize train_size() const override { return SizeOf(train_.get()); }
  DatasetSize evaluation_size() const override { return SizeOf(evaluation_.get()); }
  std::vector<std::pair<std::string, std::string>> Identity() const override {
    return {{"pictures", ToJson(processing_, channels_).dump()}, {"augment", NameOf(augment_)}};
  }
  std::vector<std::pair<std::string, std::string>> ModelFiles() const override {
    return {{kProcessorFile, ToJson(processing_, channels_).dump(2) + "\n"}};
  }

 private:
  static DatasetSize SizeOf(const Dataset* data) {
    const int64_t pictures = data ? data->size() : 0;
    return {.unit = "pictures", .samples = pictures, .labels = pictures};
  }

  PictureProcessing processing_;
  int64_t channels_ = 3;
  Augment augment_ = Augment::kNone;
  std::unique_ptr<LabelledPictures> pictures_, evaluated_;
  std::unique_ptr<Dataset> train_, evaluation_;
};

absl::Status PictureData::Open(const RunConfig& config, const ResNetConfig& model) {
  LabelledPicturesOptions options;
  options.labels = model.classifier.labels;
  options.scratch_directory = ScratchDirectory(config.train.output);
  ASSIGN_OR_RETURN(pictures_, LabelledPictures::Open(config.data, options));
  const LabelledPictures& pictures = *pictures_;
  channels_ = model.channels;
  augment_ =
      config.pictures.augment.value_or(pictures.is_cifar() ? Augment::kCropFlip : Augment::kNone);
  ASSIGN_OR_RETURN(processing_, ResolveProcessing(config.model, config.pictures.side,
                                                  pictures.is_cifar(), model));
  RETURN_IF_ERROR(CheckNorms(processing_, config.train.micro_batch, model));
  const PictureSize& size = processing_.size;
  LogInfo(absl::StrCat(absl::StrJoin(config.data, ", "), ": ", pictures.size(),
                       " pictures, read as ", size.width, " x ", size.height, "; augment ",
                       NameOf(augment_)));
  PictureDatasetOptions dataset{processing_, channels_, augment_, config.train.seed};
  train_ = std::make_unique<PictureDataset>(pictures_.get(), dataset);
  if (config.eval_data.empty()) return absl::OkStatus();
  options.evaluated = true;
  ASSIGN_OR_RETURN(evaluated_, LabelledPictures::Open(config.eval_data, options));
  LogInfo(absl::StrCat(absl::StrJoin(config.eval_data, ", "), ": ", evaluated_->size(),
                       " pictures, held out"));
  dataset.augment = Augment::kNone;
  evaluation_ = std::make_unique<PictureDataset>(evaluated_.get(), dataset);
  return absl::OkStatus();
}

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

class ClassifyPicturesTask : public Task {
 public:
  ModelTask kind() const override { return ModelTask::kClassifyImage; }
  const char* model_does() const override { return "classifies pictures"; }
  bool Fits(const ModelConfig& model) const override { return model.resnet.has_value(); }

  absl::Status CheckFile(absl::string_view flag, const std::string& path,
                         const std::string& /*model*/) const override {
    return CheckDataExists(flag, path);
  }
  absl::Status ReadLabels(const RunConfig& config, ModelConfig& model) const override;
  absl::Status Resolve(RunConfig& /*config*/, ModelConfig& /*model*/) const override {
    return absl::OkStatus();
  }
  absl::Status ExplainShapes(const RunConfig& config, const ModelConfig& model,
                             const TensorNames& names, const SafetensorsModel& files,
                             const absl::Status& error) const override {
    return ExplainHead(config.model, model.resnet->classifier, names, files, error);
  }
  bool reads_texts() const override { return false; }

  absl::StatusOr<std::unique_ptr<TaskData>> OpenData(const TaskInputs& inputs) const override {
    auto data = std::make_unique<PictureData>();
    RETURN_IF_ERROR(data->Open(inputs.config, *inputs.model.resnet));
    return data;
  }
  absl::StatusOr<std::unique_ptr<Dataset>> LargestData(
      const RunConfig& config, const ModelConfig& model,
      const SampleLengths& /*lengths*/) const override {
    const ResNetConfig& resnet = *model.resnet;
    const bool is_cifar =
        std::any_of(config.data.begin(), config.data.end(),
                    [](const std::string& path) { return path.ends_with(".bin"); });
    ASSIGN_OR_RETURN(const PictureProcessing processing,
                     ResolveProcessing(config.model, config.pictures.side, is_cifar, resnet));
    RETURN_IF_ERROR(CheckNorms(processing, config.train.micro_batch, resnet));
    return NewZeroDataset(config,
                          [channels = resnet.channels, size = processing.size](int64_t count) {
                            return BlackPictures(count, channels, size);
                          });
  }
  bool shape_tells_costs() const override { return false; }

  absl::Status Prepare(const TextRequest& request, TextModel& model) const override {
    return RefuseGenerationFlags(request, model);
  }
  absl::StatusOr<bool> Predict(const PredictRequest& request, TextModel& model) const override;
  absl::StatusOr<std::vector<Prompt>> PromptsOf(const GenerateRequest& request,
                                                TextModel& /*model*/) const override {
    return GeneratesNone(request, *this);
  }
};

absl::Status ClassifyPicturesTask::ReadLabels(const RunConfig& config, ModelConfig& model) const {
  const std::vector<std::string>& labels = model.resnet->classifier.labels;
  const bool open = std::none_of(std::begin(kLabelKeys), std::end(kLabelKeys),
                                 [&](const char* key) { return model.original.contains(key); });
  const bool named = !open && !AreUnnamed(labels), may_replace = config.ignore_mismatched_sizes;
  if (!named || may_replace) {
    ASSIGN_OR_RETURN(const FoundLabels found, FindPictureLabels(config.data));
    const bool other_count = !open && found.are_classes && found.names.size() != labels.size();
    if (!named && other_count && !may_replace) {
      return absl::InvalidArgumentError(absl::StrCat(
          config.data.front(), " has ", found.names.size(), " folders, each a class, and ",
          config.model, "/config.json ", labels.size(),
          " labels without names: --ignore-mismatched-sizes trains a new head for them"));
    }
    const bool replaces = named && !AreAllIn(labels, found.names);
    if (replaces) {
      LogInfo(absl::StrCat("config.json names others, and so labels are the ", found.names.size(),
                           " of ", config.data.front(), ": ", ShownLabels(found.names)));
    }
    if (open || replaces || (!named && found.are_classes)) NameLabels(found.names, model);
  }
  const ClassifierConfig& classifier = model.resnet->classifier;
  if (classifier.problem == ClassifierProblem::kSingleLabel) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(config.model, "/config.json is of ", ProblemName(*classifier.problem),
                   ", but each picture has one label: set \"problem_type\": "
                   "\"single_label_classification\", with two labels or more"));
}

absl::StatusOr<bool> ClassifyPicturesTask::Predict(const PredictRequest& request,
                                                   TextModel& model) const {
  for (const std::string& path : request.files) {
    RETURN_IF_ERROR(CheckDataExists("--data", path));
  }
  const ResNetConfig& config = *model.config.resnet;
  if (!request.prompt_key.empty() || request.chat || !request.text_keys.texts.empty() ||
      !request.text_keys.label.empty() || request.max_length) {
    return absl::InvalidArgumentError(
        absl::StrCat("--prompt-key, --chat, --text-keys, --label-key and --seq-len are for models "
                     "of texts, and ",
                     request.model, " classifies pictures"));
  }
  LabelledPicturesOptions options;
  options.labels = config.classifier.labels;
  options.evaluated = options.any_pictures = true;
  options.scratch_directory = TemporaryDirectory();
  ASSIGN_OR_RETURN(const auto pictures, LabelledPictures::Open(request.files, options));
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
      request, model, rows, "pictures classified",
      [&](ForwardPass&, const std::vector<int64_t>& numbers,
          const std::vector<torch::Tensor>& scores) -> absl::StatusOr<std::vector<ordered_json>> {
        std::vector<ordered_json> answers;
        for (size_t i = 0; i < numbers.size(); ++i) {
          answers.push_back(PictureRow(pictures->name(numbers[i]), scores[i], config.classifier));
        }
        return answers;
      });
}

}  // namespace

const Task* ClassifyPictures() {
  static const auto& task = *new ClassifyPicturesTask;
  return &task;
}

}  // namespace spillway
