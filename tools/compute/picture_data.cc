#include "tools/compute/picture_data.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "tools/compute/run_data.h"

namespace spillway {
namespace {

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

}  // namespace

absl::Status RefusePictureFlags(const RunConfig& config, const ModelConfig& model) {
  if (model.resnet || !config.pictures.given()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--augment, --picture-size: for models that classify pictures, and ",
                   config.model, " is a model of texts"));
}

absl::Status RefuseTextFlags(const RunConfig& config) {
  const std::pair<bool, const char*> flags[] = {
      {config.seq_len > 0, "--seq-len"},
      {config.samples != SampleLayout::kByData, "--samples, --packing"},
      {config.pad_to_max_length, "--pad-to-max-length"},
      {!config.tokenizer.empty(), "--tokenizer"},
      {!config.text_keys.texts.empty() || !config.text_keys.label.empty(),
       "--text-keys, --label-key"},
      {config.pairs.given,
       "--source-key, --target-key, --source-prefix, --max-source-length, "
       "--max-target-length"},
      {config.speech_given, "--language, --transcribe-task"},
      {config.mask_probability.has_value(), "--mask-probability"},
      {config.train.label_smoothing > 0, "--label-smoothing"},
      {config.evaluation_texts.made, "--predict-with-generate"},
      {!config.sample_prompts.file.empty(), "--sample-prompts"}};
  for (const auto& [given, names] : flags) {
    if (!given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(names, ": for models of texts, and ", config.model, " classifies pictures"));
  }
  return absl::OkStatus();
}

absl::Status ResolvePictures(const RunConfig& config, ModelConfig& model) {
  RETURN_IF_ERROR(RefuseTextFlags(config));
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

absl::StatusOr<std::unique_ptr<PictureData>> PictureData::Open(const RunConfig& config,
                                                               const ResNetConfig& model) {
  std::unique_ptr<PictureData> data(new PictureData);
  LabelledPicturesOptions options;
  options.labels = model.classifier.labels;
  options.scratch_directory = ScratchDirectory(config.train.output);
  ASSIGN_OR_RETURN(data->pictures_, LabelledPictures::Open(config.data, options));
  const LabelledPictures& pictures = *data->pictures_;
  data->channels_ = model.channels;
  data->augment_ =
      config.pictures.augment.value_or(pictures.is_cifar() ? Augment::kCropFlip : Augment::kNone);
  ASSIGN_OR_RETURN(data->processing_, ResolveProcessing(config.model, config.pictures.side,
                                                        pictures.is_cifar(), model));
  RETURN_IF_ERROR(CheckNorms(data->processing_, config.train.micro_batch, model));
  const PictureSize& size = data->processing_.size;
  LogInfo(absl::StrCat(absl::StrJoin(config.data, ", "), ": ", pictures.size(),
                       " pictures, read as ", size.width, " x ", size.height, "; augment ",
                       NameOf(data->augment_)));
  PictureDatasetOptions dataset{data->processing_, data->channels_, data->augment_,
                                config.train.seed};
  data->train_ = std::make_unique<PictureDataset>(data->pictures_.get(), dataset);
  if (config.eval_data.empty()) return data;
  options.evaluated = true;
  ASSIGN_OR_RETURN(data->evaluated_, LabelledPictures::Open(config.eval_data, options));
  LogInfo(absl::StrCat(absl::StrJoin(config.eval_data, ", "), ": ", data->evaluated_->size(),
                       " pictures, held out"));
  dataset.augment = Augment::kNone;
  data->evaluation_ = std::make_unique<PictureDataset>(data->evaluated_.get(), dataset);
  return data;
}

std::vector<std::pair<std::string, std::string>> PictureData::Identity() const {
  return {{"pictures", ToJson(processing_, channels_).dump()}, {"augment", NameOf(augment_)}};
}

std::vector<std::pair<std::string, std::string>> PictureData::ModelFiles() const {
  return {{kProcessorFile, ToJson(processing_, channels_).dump(2) + "\n"}};
}

}  // namespace spillway
