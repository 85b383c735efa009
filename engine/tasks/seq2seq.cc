// seq2seq: models that make a text from a text, such as translations and summaries.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/data/data_file.h"
#include "engine/data/paired_samples.h"
#include "engine/data/text_pairs.h"
#include "engine/data/text_rows.h"
#include "engine/datasets/pair_dataset.h"
#include "engine/tasks/all_tasks.h"
#include "engine/tasks/generating_task.h"
#include "engine/tasks/generation_data.h"
#include "engine/tasks/sample_texts.h"
#include "engine/tasks/sampled_data.h"
#include "engine/tasks/zero_dataset.h"
#include "engine/torch/text_batch.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr int64_t kUsualTargetLength = 128;

// How a prompt becomes the encoder's input.
struct SourceForm {
  const Tokenizer& tokenizer;
  const TransformerConfig& model;
  std::string prefix;
  int64_t longest = 0;  // tokens; a longer source loses its end
};

absl::StatusOr<Prompt> EncodeSource(const SourceForm& form, const std::string& text,
                                    const Conversation& chat, PromptCounts* counts) {
  if (!chat.messages.is_null()) {
    return absl::InvalidArgumentError(
        "conversations are for language models: this one makes a text from a text");
  }
  Prompt prompt;
  ASSIGN_OR_RETURN(prompt.source,
                   EncodeWithin(form.tokenizer, form.prefix + text, form.longest,
                                form.model.vocabulary, "--max-source-length", &counts->cut));
  prompt.tokens = {form.model.start_token};
  return prompt;
}

int64_t LongestSource(const TextRequest& request, const TransformerConfig& model) {
  return std::min(request.max_source_length.value_or(kUsualLength), model.longest_sequence());
}

SourceForm FormOf(const TextRequest& request, const TextModel& model) {
  const TransformerConfig& transformer = model.config.transformer;
  return {*model.tokenizer, transformer, request.source_prefix,
          LongestSource(request, transformer)};
}

struct Pairs {
  std::unique_ptr<PairedSamples> samples;
  std::unique_ptr<PairDataset> dataset;

  DatasetSize Size() const {
    return {.unit = "pairs",
            .samples = dataset->size(),
            .tokens = samples->source_tokens() + samples->target_tokens(),
            .labels = samples->target_tokens()};
  }
};

class PairData : public SampledData<Pairs> {
 public:
  explicit PairData(const TaskInputs& inputs) : SampledData(inputs) {}

  absl::Status Open() {
    const PairChoice& choice = config_.pairs;
    if (!config_.sample_prompts.file.empty()) {
      ASSIGN_OR_RETURN(samples_,
                       SampleTexts::Open(config_, &model_, inputs_.tokenizer,
                                         {choice.max_source_length, model_.longest_sequence()},
                                         [this](const std::string& text, const Conversation& chat) {
                                           const PairChoice& pairs = config_.pairs;
                                           PromptCounts counts;
                                           return EncodeSource(
                                               {*inputs_.tokenizer, model_,
                                                pairs.keys.source_prefix, pairs.max_source_length},
                                               text, chat, &counts);
                                         }));
    }
    RETURN_IF_ERROR(
        OpenParts([this](const auto& files, Pairs& pairs) { return Read(files, pairs); },
                  [this](Pairs& pairs, const Pairs* beside) { OpenDataset(beside, pairs); }));
    ASSIGN_OR_RETURN(compared_, OpenEvaluationTexts(inputs_, evaluation_.dataset.get()));
    return absl::OkStatus();
  }

  TextMaker* compared_texts() const override { return compared_.get(); }
  SampleWriter* sample_texts() const override { return samples_.get(); }
  std::vector<std::pair<std::string, std::string>> Identity() const override {
    const PairChoice& pairs = config_.pairs;
    return {{"lengths", absl::StrCat(pairs.max_source_length, ", ", pairs.max_target_length,
                                     config_.pad_to_max_length ? " to the maximum" : "")}};
  }

 private:
  absl::Status Read(const std::vector<std::string>& files, Pairs& pairs) const {
    PairedSamplesOptions options;
    options.tokenizer = inputs_.tokenizer;
    options.keys = config_.pairs.keys;
    options.max_source_length = config_.pairs.max_source_length;
    options.max_target_length = config_.pairs.max_target_length;
    options.vocabulary = model_.vocabulary;
    options.end_token = model_.end_token;
    options.scratch_directory = ScratchDirectory(config_.train.output);
    ASSIGN_OR_RETURN(pairs.samples, PairedSamples::Read(files, options));
    LogInfo(absl::StrCat(absl::StrJoin(files, ", "), ": ", pairs.samples->size(),
                         " pairs; the longest source has ", pairs.samples->longest_source(),
                         " tokens, the longest target ", pairs.samples->longest_target()));
    return absl::OkStatus();
  }

  // `beside`: what is evaluated beside it; null: nothing.
  void OpenDataset(const Pairs* beside, Pairs& pairs) const {
    const EvaluationTextsChoice& texts = config_.evaluation_texts;
    const PairLengths written = samples_ ? samples_->longest() : PairLengths();
    PairDatasetOptions options;
    options.made = std::max(beside && texts.made ? texts.max_length - 1 : 0, written.target);
    options.most = {config_.pairs.max_source_length, config_.pairs.max_target_length};
    options.pad_to_max_length = config_.pad_to_max_length;
    if (beside != nullptr) {
      options.evaluated = {std::max(beside->samples->longest_source(), written.source),
                           beside->samples->longest_target()};
    }
    pairs.dataset = std::make_unique<PairDataset>(pairs.samples.get(), &model_, options);
  }

  std::unique_ptr<SampleTexts> samples_;       // null: evaluations write none
  std::unique_ptr<EvaluationTexts> compared_;  // null: evaluations generate none
};

class Seq2SeqTask : public GeneratingTask {
 public:
  ModelTask kind() const override { return ModelTask::kSeq2Seq; }
  const char* model_does() const override { return "makes texts from texts"; }
  bool Fits(const ModelConfig& model) const override {
    return model.transformer.encoder && !model.transformer.hears();
  }

  absl::Status CheckFile(absl::string_view flag, const std::string& path,
                         const std::string& /*model*/) const override {
    return CheckDataFile(flag, path, DataUse::kRows);
  }
  absl::Status Resolve(RunConfig& config, ModelConfig& model) const override {
    const int64_t positions = model.transformer.longest_sequence();
    RETURN_IF_ERROR(ResolveLength("--max-source-length", positions, kUsualLength,
                                  &config.pairs.max_source_length));
    RETURN_IF_ERROR(ResolveLength("--max-target-length", positions, kUsualTargetLength,
                                  &config.pairs.max_target_length));
    config.seq_len = config.pairs.max_source_length;
    model.transformer.label_smoothing = config.train.label_smoothing;
    RETURN_IF_ERROR(RefusePacking(config, "texts that are made from texts"));
    return ResolveEvaluationTexts(model.transformer, config);
  }
  bool compares_texts() const override { return true; }

  absl::StatusOr<std::unique_ptr<TaskData>> OpenData(const TaskInputs& inputs) const override {
    auto data = std::make_unique<PairData>(inputs);
    RETURN_IF_ERROR(data->Open());
    return data;
  }
  absl::StatusOr<std::unique_ptr<Dataset>> LargestData(
      const RunConfig& config, const ModelConfig& model,
      const SampleLengths& lengths) const override {
    return NewZeroDataset(config, [lengths, transformer = model.transformer](int64_t count) {
      return LargestPairBatch(transformer, count, {lengths.source, lengths.target});
    });
  }

  absl::Status Prepare(const TextRequest& request, TextModel& model) const override {
    RETURN_IF_ERROR(RefuseSpeechFlags(request, model));
    const int64_t positions = model.config.transformer.longest_sequence();
    int64_t given = request.max_source_length.value_or(1);
    RETURN_IF_ERROR(ResolveLength("--max-source-length", positions, positions, &given));
    return PrepareToGenerate(request, model);
  }
  absl::StatusOr<std::vector<Prompt>> PromptsOf(const GenerateRequest& request,
                                                TextModel& model) const override {
    RETURN_IF_ERROR(RefuseAudio(request));
    PromptCounts counts;
    auto prompt =
        EncodeSource(FormOf(request, model), request.prompt,
                     request.chat ? UserMessage(request.prompt) : Conversation(), &counts);
    if (!prompt.ok()) return Annotate(prompt.status(), "--prompt");
    if (counts.cut > 0) LogWarning("--prompt is longer than --max-source-length and loses its end");
    std::vector<Prompt> prompts = {*std::move(prompt)};
    RETURN_IF_ERROR(Start(request, /*rows=*/1, prompts, model));
    return prompts;
  }
  absl::Status Start(const TextRequest& request, int rows, std::vector<Prompt>& prompts,
                     TextModel& model) const override {
    SourceList sources;
    sources.size = prompts.size();
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto length = static_cast<int64_t>(prompts[i].source.size());
      if (length <= sources.longest) continue;
      sources.longest = length;
      sources.largest = i;
    }
    sources.get = [&](size_t i) -> absl::StatusOr<Batch> {
      const std::vector<int64_t>& tokens = prompts[i].source;
      Batch batch =
          BatchOfTexts({{tokens, {}}}, static_cast<int64_t>(tokens.size()), /*padding=*/0);
      batch.fields[kSourceField] = batch.inputs;
      return batch;
    };
    return StartGenerator(request, rows, prompts, &sources, model);
  }
  absl::StatusOr<std::vector<PromptRecord>> ReadRecords(
      const PredictRequest& request) const override {
    if (!IsRowFile(request.data)) return GeneratingTask::ReadRecords(request);
    PairKeys keys;
    if (!request.prompt_key.empty()) keys.source = request.prompt_key;
    keys.target = TargetKey(request);
    std::vector<PromptRecord> records;
    RETURN_IF_ERROR(
        ReadTextPairs(request.data, keys, /*needs_target=*/false, [&](const TextPairRow& pair) {
          records.push_back({pair.source, {}, pair.line, pair.target});
          return absl::OkStatus();
        }));
    return records;
  }
  absl::StatusOr<std::vector<Prompt>> PromptsOfRecord(const PredictRequest& request,
                                                      const TextModel& model,
                                                      const PromptRecord& record,
                                                      PromptCounts* counts) const override {
    const bool said = request.chat && !record.is_chat();
    ASSIGN_OR_RETURN(Prompt prompt,
                     EncodeSource(FormOf(request, model), record.prompt,
                                  said ? UserMessage(record.prompt) : record.chat, counts));
    return std::vector<Prompt>{std::move(prompt)};
  }
  void Warn(const PredictRequest& request, const TextModel& model, const PromptCounts& counts,
            size_t prompts) const override {
    if (counts.cut == 0) return;
    LogWarning(absl::StrCat(request.data, ": ", counts.cut, " of ", prompts,
                            " sources are longer than --max-source-length ",
                            LongestSource(request, model.config.transformer),
                            " and lose their end"));
  }
};

}  // namespace

const Task* Seq2Seq() {
  static const auto& task = *new Seq2SeqTask;
  return &task;
}

}  // namespace spillway
