// transcribe: models that write down or translate what is spoken (Whisper).
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/data/data_file.h"
#include "engine/data/speech_samples.h"
#include "engine/data/text_pairs.h"
#include "engine/data/text_rows.h"
#include "engine/datasets/speech_dataset.h"
#include "engine/tasks/all_tasks.h"
#include "engine/tasks/generating_task.h"
#include "engine/tasks/generation_data.h"
#include "engine/tasks/sampled_data.h"
#include "engine/tasks/speech_prompts.h"
#include "engine/tasks/text_sampling.h"
#include "engine/tasks/zero_dataset.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

struct Sounds {
  std::unique_ptr<SpeechSamples> samples;
  std::unique_ptr<SpeechDataset> dataset;

  DatasetSize Size() const {
    const int64_t tokens = samples->target_tokens();
    return {.unit = "sounds", .samples = dataset->size(), .tokens = tokens, .labels = tokens};
  }
};

class SpeechData : public SampledData<Sounds> {
 public:
  explicit SpeechData(const TaskInputs& inputs) : SampledData(inputs) {}

  absl::Status Open() {
    RETURN_IF_ERROR(
        OpenParts([this](const auto& files, Sounds& sounds) { return Read(files, sounds); },
                  [this](Sounds& sounds, const Sounds* beside) { OpenDataset(beside, sounds); }));
    const auto before_times = SpeechTokens::Of(*inputs_.tokenizer).no_timestamps();
    const auto first_time = before_times ? std::optional<int64_t>(*before_times + 1) : std::nullopt;
    ASSIGN_OR_RETURN(compared_,
                     OpenEvaluationTexts(inputs_, evaluation_.dataset.get(), first_time));
    return absl::OkStatus();
  }

  TextMaker* compared_texts() const override { return compared_.get(); }
  std::vector<std::pair<std::string, std::string>> Identity() const override {
    const SpeechMode& speech = config_.speech;
    return {{"lengths", absl::StrCat(config_.pairs.max_target_length,
                                     config_.pad_to_max_length ? " to the maximum" : "")},
            {"speech", absl::StrCat(speech.language, speech.translates ? " translated" : "")}};
  }

 private:
  absl::Status Read(const std::vector<std::string>& files, Sounds& sounds) const {
    SpeechSamplesOptions options;
    options.tokenizer = inputs_.tokenizer;
    options.keys = config_.pairs.keys;
    options.task = config_.speech;
    options.max_seconds = SpeechSecondsOf(model_);
    options.max_target_length = config_.pairs.max_target_length;
    options.vocabulary = model_.vocabulary;
    options.end_token = model_.end_token;
    options.scratch_directory = ScratchDirectory(config_.train.output);
    ASSIGN_OR_RETURN(sounds.samples, SpeechSamples::Read(files, options));
    LogInfo(absl::StrFormat("%s: %d sounds; the longest has %.1f s, the longest text %d tokens",
                            absl::StrJoin(files, ", "), sounds.samples->size(),
                            sounds.samples->longest_seconds(), sounds.samples->longest_target()));
    return absl::OkStatus();
  }

  // `beside`: what is evaluated beside it; null: nothing.
  void OpenDataset(const Sounds* beside, Sounds& sounds) const {
    const EvaluationTextsChoice& texts = config_.evaluation_texts;
    sounds.dataset = std::make_unique<SpeechDataset>(
        sounds.samples.get(), &model_,
        SpeechDatasetOptions{config_.pairs.max_target_length, config_.pad_to_max_length,
                             beside ? beside->samples->longest_target() : 0,
                             beside && texts.made ? texts.max_length - 1 : 0});
  }

  std::unique_ptr<EvaluationTexts> compared_;  // null: evaluations generate none
};

// What the command and the model's generation_config.json say of how sounds are heard.
absl::Status ResolveSounds(const TextRequest& request, const GenerationConfig& config,
                           TextModel& model) {
  RETURN_IF_ERROR(CheckSpeechPreprocessor(model.files, *model.config.transformer.encoder->speech));
  model.speech_tokens = SpeechTokens::Of(*model.tokenizer, config.multilingual);
  model.speech = request.speech;
  SpeechMode& speech = model.speech;
  if (speech.language.empty()) {
    absl::string_view language = config.language;  // a code, or <|de|>
    if (absl::ConsumePrefix(&language, "<|")) absl::ConsumeSuffix(&language, "|>");
    speech.language = std::string(language);
  }
  const std::string job = request.speech_task.empty() ? config.task : request.speech_task;
  speech.translates = job == "translate";
  if (speech.language.empty() && job.empty()) {
    // What older files say in their place.
    const auto forced = [&](int64_t at) {
      const auto found = config.forced_decoder.find(at);
      return found == config.forced_decoder.end() ? -1 : found->second;
    };
    for (const auto& [code, token] : model.speech_tokens.languages()) {
      if (token == forced(1)) speech.language = code;
    }
    speech.translates = model.speech_tokens.translate().value_or(-2) == forced(2);
  }
  const std::optional<int64_t> no_timestamps = model.speech_tokens.no_timestamps();
  if (config.no_timestamps && no_timestamps && config.no_timestamps != no_timestamps) {
    return absl::InvalidArgumentError(
        absl::StrCat("no_timestamps_token_id of generation_config.json is ", *config.no_timestamps,
                     ", which is not <|notimestamps|> of the tokenizer: mend the file, or say "
                     "--generation-config none (or a FILE)"));
  }
  speech.timestamps |= config.timestamps.value_or(false);
  SpeechMode some = speech;
  if (some.language.empty() && model.speech_tokens.multilingual()) {
    some.language = model.speech_tokens.languages().front().first;
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> prefix, model.speech_tokens.Prefix(some));
  if (model.speech_tokens.no_timestamps()) {
    model.sampling.unwritten_from = *model.speech_tokens.no_timestamps() + 1;
  }
  if (speech.timestamps) {
    model.sampling.first_timestamp = model.sampling.unwritten_from;
    if (config.max_initial_timestamp) {
      model.sampling.last_first_timestamp =
          model.sampling.first_timestamp + *config.max_initial_timestamp;
    }
  }
  // The start token and these have their positions, too.
  const int64_t left = model.config.transformer.positions - 1 - static_cast<int64_t>(prefix.size());
  if (left < 1) {
    return absl::InvalidArgumentError("the model has no positions for a text");
  }
  model.new_tokens = std::min(model.new_tokens, left);
  // Of such a model transformers' max_length counts new tokens.
  if (!request.sampling.tokens && !config.max_new_tokens) {
    model.new_tokens = std::min(left, config.max_length.value_or(left));
  }
  model.sampling.max_tokens = model.new_tokens;
  return absl::OkStatus();
}

class TranscribeTask : public GeneratingTask {
 public:
  ModelTask kind() const override { return ModelTask::kTranscribe; }
  const char* model_does() const override { return "makes texts from sounds"; }
  bool Fits(const ModelConfig& model) const override { return model.transformer.hears(); }

  absl::Status CheckFile(absl::string_view flag, const std::string& path,
                         const std::string& /*model*/) const override {
    return CheckDataFile(flag, path, DataUse::kRows);
  }
  absl::Status Resolve(RunConfig& config, ModelConfig& model) const override {
    TransformerConfig& transformer = model.transformer;
    PairChoice& pairs = config.pairs;
    // run_speech_recognition_seq2seq's --text_column_name, which --text-keys means elsewhere.
    std::vector<std::string>& keys = config.text_keys.texts;
    if (keys.size() == 1 && !pairs.target_key_given) {
      pairs.keys.target = std::exchange(keys, {}).front();
      pairs.target_key_given = true;
    }
    if (!keys.empty()) {
      return absl::InvalidArgumentError(
          "--text-keys: sounds have one text, which --target-key names");
    }
    RETURN_IF_ERROR(RefusePacking(config, "sounds"));
    RETURN_IF_ERROR(CheckSpeechPreprocessor(config.model, *transformer.encoder->speech));
    if (!pairs.source_key_given) pairs.keys.source = kAudioKey;
    if (!pairs.target_key_given) pairs.keys.target = kAudioTextKey;
    RETURN_IF_ERROR(ResolveLength("--max-target-length", transformer.positions,
                                  transformer.positions, &pairs.max_target_length));
    config.seq_len = pairs.max_target_length;
    transformer.label_smoothing = config.train.label_smoothing;
    return ResolveEvaluationTexts(transformer, config);
  }
  bool compares_texts() const override { return true; }

  absl::StatusOr<std::unique_ptr<TaskData>> OpenData(const TaskInputs& inputs) const override {
    auto data = std::make_unique<SpeechData>(inputs);
    RETURN_IF_ERROR(data->Open());
    return data;
  }
  absl::StatusOr<std::unique_ptr<Dataset>> LargestData(
      const RunConfig& config, const ModelConfig& model,
      const SampleLengths& lengths) const override {
    return NewZeroDataset(config, [lengths, transformer = model.transformer](int64_t count) {
      return LargestSpeechBatch(transformer, count, lengths.target);
    });
  }

  absl::Status Prepare(const TextRequest& request, TextModel& model) const override {
    RETURN_IF_ERROR(RefuseSourceFlags(request, model));
    RETURN_IF_ERROR(PrepareToGenerate(request, model));
    ASSIGN_OR_RETURN(
        const GenerationConfig config,
        FindGenerationConfig(request.generation_config, model.files, model.config.transformer));
    return ResolveSounds(request, config, model);
  }
  absl::StatusOr<std::vector<Prompt>> PromptsOf(const GenerateRequest& request,
                                                TextModel& model) const override {
    if (request.audio.empty()) {
      return absl::InvalidArgumentError(
          "--prompt: the model makes texts from sounds: give generate --audio FILE, or predict a "
          ".jsonl of rows with \"audio\"");
    }
    auto prompts = PromptsOfSound(model, request.audio);
    if (!prompts.ok()) return Annotate(prompts.status(), "--audio");
    RETURN_IF_ERROR(Start(request, /*rows=*/1, *prompts, model));
    return prompts;
  }
  absl::Status Start(const TextRequest& request, int rows, std::vector<Prompt>& prompts,
                     TextModel& model) const override {
    const TransformerConfig& encoder = *model.config.transformer.encoder;
    const LogMel mel(encoder.speech->bands);
    SoundReader sounds;
    SourceList sources;
    sources.size = prompts.size();
    sources.longest = encoder.positions;
    sources.get = [&](size_t i) -> absl::StatusOr<Batch> {
      ASSIGN_OR_RETURN(
          const std::vector<float> frames,
          sounds.Frames(prompts[i].sound, mel, SpeechFramesOf(model.config.transformer)));
      return Batch{SpeechInput(frames, mel.bands()), {}};
    };
    RETURN_IF_ERROR(StartGenerator(request, rows, prompts, &sources, model));
    return FindLanguages(model, rows, prompts);
  }
  absl::Status CheckPrompts(const std::string& path) const override {
    if (IsRowFile(path)) return GeneratingTask::CheckPrompts(path);
    RETURN_IF_ERROR(CheckDataExists("--data", path));
    return absl::InvalidArgumentError(
        absl::StrCat("--data ", path,
                     ": sounds are named by the rows of a .jsonl, .csv or .tsv (\"audio\": "
                     "\"FILE.wav\"); spillway generate --audio FILE writes down one"));
  }
  std::string TargetKey(const PredictRequest& request) const override {
    return request.target_key.empty() ? kAudioTextKey : request.target_key;
  }
  absl::StatusOr<std::vector<PromptRecord>> ReadRecords(
      const PredictRequest& request) const override {
    PairKeys keys = {kAudioKey, TargetKey(request), ""};
    if (!request.prompt_key.empty()) keys.source = request.prompt_key;
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
                                                      PromptCounts* /*counts*/) const override {
    return PromptsOfSound(model, AudioPath(request.data, record.prompt));
  }
  absl::StatusOr<nlohmann::ordered_json> RowOf(const TextModel& model, const PromptRecord& record,
                                               std::vector<WindowMade>& made) const override {
    std::sort(made.begin(), made.end(),
              [](const auto& a, const auto& b) { return a.first.number < b.first.number; });
    nlohmann::ordered_json row;
    row["audio"] = record.prompt;
    ASSIGN_OR_RETURN(const nlohmann::ordered_json heard, RowOfSound(model, made));
    row.update(heard);
    return row;
  }
  void Warn(const PredictRequest& /*request*/, const TextModel& /*model*/,
            const PromptCounts& /*counts*/, size_t /*prompts*/) const override {}
};

}  // namespace

const Task* Transcribe() {
  static const auto& task = *new TranscribeTask;
  return &task;
}

}  // namespace spillway
