#include "engine/tasks/classify_task.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/data/data_labels.h"
#include "engine/datasets/labelled_dataset.h"
#include "engine/tasks/sampled_data.h"
#include "engine/tasks/text_model.h"
#include "engine/tasks/zero_dataset.h"
#include "engine/weights/named_weights.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

struct Labelled {
  std::unique_ptr<LabelledSamples> samples;
  std::unique_ptr<LabelledDataset> dataset;

  DatasetSize Size() const {
    const int64_t texts = dataset->size();
    return {.unit = "texts",
            .samples = texts,
            .tokens = samples->tokens(),
            .labels = samples->labels_tokens() ? 0 : texts};
  }
};

class LabelledData : public SampledData<Labelled> {
 public:
  LabelledData(const ClassifyTask& task, const TaskInputs& inputs)
      : SampledData(inputs), task_(task) {}

  absl::Status Open() {
    return OpenParts([this](const auto& files, Labelled& part) { return Read(files, part); },
                     [this](Labelled& part, const Labelled* beside) {
                       part.dataset = std::make_unique<LabelledDataset>(
                           part.samples.get(), &model_,
                           LabelledDatasetOptions{config_.seq_len, config_.pad_to_max_length,
                                                  beside ? beside->samples->longest() : 0});
                     });
  }

  std::vector<std::pair<std::string, std::string>> Identity() const override {
    return {{"seq-len", absl::StrCat(config_.seq_len)},
            {"task", task_.Problem(*model_.classifier)}};
  }

 private:
  absl::Status Read(const std::vector<std::string>& files, Labelled& labelled) const {
    LabelledSamplesOptions options;
    options.tokenizer = inputs_.tokenizer;
    options.keys = config_.text_keys;
    options.seq_len = config_.seq_len;
    options.scratch_directory = ScratchDirectory(config_.train.output);
    ASSIGN_OR_RETURN(labelled.samples, task_.ReadSamples(files, model_, options));
    LogInfo(absl::StrCat(absl::StrJoin(files, ", "), ": ", labelled.samples->size(),
                         " texts; the longest has ", labelled.samples->longest(), " tokens"));
    return absl::OkStatus();
  }
  const ClassifyTask& task_;
};

}  // namespace

absl::Status ClassifyTask::ReadLabels(const RunConfig& config, ModelConfig& model) const {
  std::optional<ClassifierProblem>& problem = model.transformer.classifier->problem;
  if (!problem) {
    ASSIGN_OR_RETURN(problem, FindProblem(config.data.front(), config.text_keys));
  }
  if (*problem == ClassifierProblem::kRegression) return absl::OkStatus();
  const ClassifierConfig had = *model.transformer.classifier;
  ASSIGN_OR_RETURN(const std::vector<std::string> labels,
                   FindLabels(config.data, config.text_keys, had, config.ignore_mismatched_sizes));
  const bool named = !had.has_default_labels();
  model.transformer.classifier->labels_from_data = !named || labels != had.labels;
  if (labels == had.labels) return absl::OkStatus();
  ASSIGN_OR_RETURN(model, ParseAgain(model, WithLabels(model.original, labels),
                                     config.model + "/config.json", config.task));
  LogInfo(absl::StrCat(named ? "config.json names others, and so labels are the "
                             : "config.json names no labels, and so they are the ",
                       labels.size(), " of ", absl::StrJoin(config.data, ", "), ": ",
                       ShownLabels(labels)));
  return absl::OkStatus();
}

bool ClassifyTask::AssumeLabels(ModelConfig& model) const {
  std::optional<ClassifierProblem>& problem = model.transformer.classifier->problem;
  if (problem) return false;
  problem = ClassifierProblem::kSingleLabel;
  return true;
}

absl::Status ClassifyTask::Resolve(RunConfig& config, ModelConfig& model) const {
  RETURN_IF_ERROR(ResolveLength("--seq-len", model.transformer.longest_sequence(), kUsualLength,
                                &config.seq_len));
  return RefusePacking(config, "texts that are classified");
}

absl::Status ClassifyTask::ExplainShapes(const RunConfig& config, const ModelConfig& model,
                                         const TensorNames& names, const SafetensorsModel& files,
                                         const absl::Status& error) const {
  return ExplainHead(config.model, *model.transformer.classifier, names, files, error);
}

absl::StatusOr<std::unique_ptr<TaskData>> ClassifyTask::OpenData(const TaskInputs& inputs) const {
  auto data = std::make_unique<LabelledData>(*this, inputs);
  RETURN_IF_ERROR(data->Open());
  return data;
}

absl::StatusOr<std::unique_ptr<Dataset>> ClassifyTask::LargestData(
    const RunConfig& config, const ModelConfig& model, const SampleLengths& lengths) const {
  return NewZeroDataset(config, [lengths, transformer = model.transformer,
                                 of_tokens = labels_tokens()](int64_t count) {
    return LargestLabelledBatch(transformer, of_tokens, count, lengths.source);
  });
}

absl::Status ClassifyTask::Prepare(const TextRequest& request, TextModel& model) const {
  RETURN_IF_ERROR(RefuseGenerationFlags(request, model));
  return OpenTokenizer(request, model);
}

absl::StatusOr<std::vector<Prompt>> ClassifyTask::PromptsOf(const GenerateRequest& request,
                                                            TextModel& /*model*/) const {
  return GeneratesNone(request, *this);
}

absl::Status ExplainHead(const std::string& model, const ClassifierConfig& classifier,
                         const TensorNames& names, const SafetensorsModel& files,
                         const absl::Status& error) {
  const auto labels = static_cast<uint64_t>(classifier.labels.size());
  const auto parameters = ParametersOfTensors(names, files);
  for (const SafetensorsTensor* tensor : files.tensors()) {
    const auto parameter = parameters.find(tensor->name);
    if (parameter == parameters.end() || tensor->shape.empty()) continue;
    std::vector<uint64_t> expected = names.shapes.at(parameter->second);
    if (expected.empty() || expected[0] != labels || tensor->shape[0] == labels) continue;
    expected[0] = tensor->shape[0];
    if (expected != tensor->shape) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        model, ": its head tells ", tensor->shape[0], " labels apart (", tensor->name, "), and ",
        classifier.labels_from_data ? "--data has " : "config.json names ", labels, ": ",
        ShownLabels(classifier.labels),
        ". --ignore-mismatched-sizes begins a new head for them; otherwise give data with those "
        "labels"));
  }
  return error;
}

absl::Status GeneratesNone(const TextRequest& request, const Task& task) {
  return absl::InvalidArgumentError(absl::StrCat(request.model, " ", task.model_does(),
                                                 " and generates no text: spillway predict answers "
                                                 "a file"));
}

}  // namespace spillway
