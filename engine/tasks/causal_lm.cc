// causal-lm: language models, which continue texts.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/civil_time.h"
#include "engine/chat/chat_format.h"
#include "engine/data/data_file.h"
#include "engine/data/sample_rows.h"
#include "engine/data/token_source.h"
#include "engine/datasets/sample_dataset.h"
#include "engine/datasets/token_dataset.h"
#include "engine/run/run_state.h"
#include "engine/tasks/all_tasks.h"
#include "engine/tasks/generating_task.h"
#include "engine/tasks/sample_texts.h"
#include "engine/tasks/sampled_data.h"
#include "engine/tasks/zero_dataset.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// A prompt's tokens after the tokenizer's begin token (Llama's <|begin_of_text|>), or a
// conversation up to the start of the assistant's turn. kInvalidArgument for a prompt without
// tokens, with another model's tokens, or longer than the model's positions.
absl::StatusOr<Prompt> EncodePrompt(const Tokenizer& tokenizer, const TransformerConfig& model,
                                    const ChatClock& chat_clock, const std::string& text,
                                    const Conversation& chat, PromptCounts* counts) {
  Prompt prompt;
  std::vector<int64_t>& tokens = prompt.tokens;
  if (!chat.messages.is_null()) {
    ASSIGN_OR_RETURN(const ChatFormat* const format, tokenizer.chat());
    ASSIGN_OR_RETURN(const JinjaText written, format->RenderText(chat, true, chat_clock));
    ASSIGN_OR_RETURN(tokens, tokenizer.Encode(written.text));
  } else {
    ASSIGN_OR_RETURN(const std::vector<int64_t> own, tokenizer.Encode(text));
    tokens = tokenizer.BeforeText();
    counts->doubled += !tokens.empty() && !own.empty() && tokens.back() == own.front();
    tokens.insert(tokens.end(), own.begin(), own.end());
  }
  prompt.continues_text = true;
  for (const int64_t token : tokens) {
    if (token < model.vocabulary) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the prompt has token ", token, " and the model knows ", model.vocabulary,
                     ": the tokenizer (", std::string(tokenizer.kind()), ") is not the model's"));
  }
  const int64_t positions = model.longest_sequence();
  if (tokens.empty()) {
    return absl::InvalidArgumentError("the prompt has no tokens: give a longer one");
  }
  if (static_cast<int64_t>(tokens.size()) > positions) {
    return absl::InvalidArgumentError(absl::StrCat("the prompt has ", tokens.size(),
                                                   " tokens and the model knows ", positions,
                                                   " positions: give a shorter one"));
  }
  return prompt;
}

// The samples of some files: windows of all tokens, or rows of whole samples.
struct TokenSamples {
  std::unique_ptr<TokenSource> tokens;
  std::unique_ptr<SampleRows> rows;  // null: windows
  SampleLayout layout = SampleLayout::kWindows;
  std::unique_ptr<Dataset> dataset;

  int64_t window = 0;  // tokens per window

  DatasetSize Size() const {
    DatasetSize size;
    size.samples = dataset->size();
    if (rows) {
      size.unit = layout == SampleLayout::kPacked ? "rows" : "lines";
      size.tokens = rows->positions();
      size.labels = rows->labels();
    } else {
      size.unit = "windows";
      size.tokens = size.samples * window;
    }
    return size;
  }
};

class CausalLmData : public SampledData<TokenSamples> {
 public:
  explicit CausalLmData(const TaskInputs& inputs) : SampledData(inputs) {}

  absl::Status Open() {
    if (!config_.sample_prompts.file.empty()) {
      ASSIGN_OR_RETURN(samples_,
                       SampleTexts::Open(config_, &inputs_.model.transformer, inputs_.tokenizer,
                                         {0, config_.seq_len},
                                         [this](const std::string& text, const Conversation& chat) {
                                           PromptCounts counts;
                                           return EncodePrompt(
                                               *inputs_.tokenizer, inputs_.model.transformer,
                                               config_.chat_clock, text, chat, &counts);
                                         }));
    }
    RETURN_IF_ERROR(OpenParts(
        [this](const auto& files, TokenSamples& part) {
          return Lay(files, &part != &train_, part);
        },
        [this](TokenSamples& part, const TokenSamples* beside) { OpenDataset(beside, part); }));
    if (samples_) samples_->EndAt(LearntEnds());
    return absl::OkStatus();
  }

  SampleLayout layout() const override { return train_.layout; }
  SampleWriter* sample_texts() const override { return samples_.get(); }
  std::vector<int64_t> LearntEnds() const override { return train_.tokens->learnt_ends(); }

  std::vector<std::pair<std::string, std::string>> Identity() const override {
    std::vector<std::pair<std::string, std::string>> identity = {
        {"seq-len", absl::StrCat(config_.seq_len)}};
    if (WritesChatDate()) {
      identity.emplace_back(kChatDateName,
                            absl::FormatCivilTime(absl::CivilDay(*config_.chat_clock)));
    }
    // Windows are not named, so that commits of versions without other layouts match.
    if (train_.layout != SampleLayout::kWindows) {
      identity.emplace_back(
          kSamplesName, absl::StrCat(train_.layout == SampleLayout::kPacked ? "packed" : "padded",
                                     config_.pad_to_max_length ? " to the maximum" : ""));
    }
    return identity;
  }

 private:
  // Whether a chat template has written the date into the samples.
  bool WritesChatDate() const {
    if (inputs_.tokenizer == nullptr || !train_.tokens->has_prompts() || !config_.chat_clock) {
      return false;
    }
    const auto chat = inputs_.tokenizer->chat();
    return chat.ok() && (*chat)->reads_clock();
  }

  // Lays out everything but the dataset. Held-out files have the layout of the data, unless they
  // have no samples.
  absl::Status Lay(const std::vector<std::string>& files, bool evaluated,
                   TokenSamples& samples) const {
    TokenSourceOptions options;
    options.files = files;
    options.tokenizer = inputs_.tokenizer;
    options.scratch_directory = ScratchDirectory(config_.train.output);
    options.vocabulary = inputs_.model.transformer.vocabulary;
    options.chat_clock = config_.chat_clock;
    ASSIGN_OR_RETURN(samples.tokens, TokenSource::Open(options));
    const TokenSource& tokens = *samples.tokens;
    const bool by_data = config_.samples == SampleLayout::kByData;
    if (!evaluated) {
      samples.layout = by_data ? LayoutByData(tokens) : config_.samples;
    } else if (tokens.has_samples()) {
      samples.layout = train_.layout;
    }
    RETURN_IF_ERROR(CheckSampleLayout(samples.layout, tokens));
    if (samples.layout == SampleLayout::kWindows) {
      RETURN_IF_ERROR(tokens.CheckWindow(config_.seq_len));
      if (!tokens.has_samples() && !tokens.has_prompts()) return absl::OkStatus();
      LogInfo(absl::StrCat(tokens.names(), ": windows of ", config_.seq_len, " tokens",
                           !by_data ? ""
                           : tokens.has_prompts()
                               ? ", as not all files say where samples begin (--samples)"
                               : ", as its lines are plain texts (--samples padded: a row each)"));
      return absl::OkStatus();
    }
    const bool pack = samples.layout == SampleLayout::kPacked;
    ASSIGN_OR_RETURN(samples.rows,
                     SampleRows::Lay(tokens, {config_.seq_len, pack, options.scratch_directory}));
    const SampleRows& rows = *samples.rows;
    std::string text = absl::StrCat(tokens.names(), ": ", rows.samples(), " samples");
    if (pack) {
      absl::StrAppendFormat(&text, " packed into %d rows, which are %.0f%% full", rows.size(),
                            100.0 * static_cast<double>(rows.positions()) /
                                static_cast<double>(rows.size() * config_.seq_len));
    } else {
      absl::StrAppend(&text, ", padded", by_data ? ", as prompts and conversations are" : "",
                      "; the longest has ", rows.longest(), " positions");
    }
    LogInfo(text);
    return absl::OkStatus();
  }

  // `beside`: the held-out samples; null: none.
  void OpenDataset(const TokenSamples* beside, TokenSamples& samples) const {
    const int64_t seq_len = samples.window = config_.seq_len;
    if (!samples.rows) {
      samples.dataset = std::make_unique<TokenDataset>(samples.tokens.get(), seq_len);
      return;
    }
    const int64_t written = samples_ ? samples_->longest().target : 0;
    const int64_t evaluated = beside == nullptr ? 0
                              : beside->rows    ? std::max(beside->rows->longest(), written)
                                                : seq_len;
    samples.dataset = std::make_unique<SampleDataset>(
        samples.tokens.get(), samples.rows.get(),
        SampleDatasetOptions{seq_len, samples.layout == SampleLayout::kPacked,
                             config_.pad_to_max_length, evaluated});
  }

  std::unique_ptr<SampleTexts> samples_;  // null: evaluations write no samples
};

class CausalLmTask : public GeneratingTask {
 public:
  ModelTask kind() const override { return ModelTask::kCausalLm; }
  const char* model_does() const override { return "is a language model"; }
  bool Fits(const ModelConfig& model) const override {
    const TransformerConfig& transformer = model.transformer;
    return !model.resnet && !transformer.encoder && !transformer.classifier &&
           !transformer.finds_spans && !transformer.masked;
  }

  absl::Status CheckFile(absl::string_view flag, const std::string& path,
                         const std::string& /*model*/) const override {
    return CheckDataFile(flag, path, DataUse::kTokens);
  }
  absl::Status Resolve(RunConfig& config, ModelConfig& model) const override {
    RETURN_IF_ERROR(ResolveLength("--seq-len", model.transformer.longest_sequence(), kUsualLength,
                                  &config.seq_len));
    model.transformer.label_smoothing = config.train.label_smoothing;
    return absl::OkStatus();
  }
  bool reads_token_ids() const override { return true; }
  bool lays_samples() const override { return true; }

  absl::StatusOr<std::unique_ptr<TaskData>> OpenData(const TaskInputs& inputs) const override {
    auto data = std::make_unique<CausalLmData>(inputs);
    RETURN_IF_ERROR(data->Open());
    return data;
  }
  absl::StatusOr<std::unique_ptr<Dataset>> LargestData(
      const RunConfig& config, const ModelConfig& /*model*/,
      const SampleLengths& lengths) const override {
    const bool packed = config.samples == SampleLayout::kPacked;
    return NewZeroDataset(config, [=](int64_t count) {
      const torch::Tensor zeros = torch::zeros({count, lengths.source}, torch::kInt64);
      Batch batch{zeros, zeros};
      if (packed) batch.texts = LargestTexts(count, lengths.source);
      return batch;
    });
  }
  bool all_batches_are_alike(const RunConfig& config) const override {
    return config.samples != SampleLayout::kPadded;
  }

  absl::Status Prepare(const TextRequest& request, TextModel& model) const override {
    RETURN_IF_ERROR(RefuseSpeechFlags(request, model));
    RETURN_IF_ERROR(RefuseSourceFlags(request, model));
    RETURN_IF_ERROR(PrepareToGenerate(request, model));
    // Training refuses it with the same message.
    return CheckVocabulary(*model.tokenizer, model.config.transformer.vocabulary);
  }
  absl::StatusOr<std::vector<Prompt>> PromptsOf(const GenerateRequest& request,
                                                TextModel& model) const override {
    RETURN_IF_ERROR(RefuseAudio(request));
    PromptCounts counts;
    auto prompt =
        EncodePrompt(*model.tokenizer, model.config.transformer, ChatTimeNow(), request.prompt,
                     request.chat ? UserMessage(request.prompt) : Conversation(), &counts);
    if (!prompt.ok()) return Annotate(prompt.status(), "--prompt");
    if (counts.doubled > 0) {
      LogWarning("--prompt begins with a token that is put before each text as well: take it out");
    }
    std::vector<Prompt> prompts = {*std::move(prompt)};
    RETURN_IF_ERROR(Start(request, /*rows=*/1, prompts, model));
    return prompts;
  }
  absl::Status Start(const TextRequest& request, int rows, std::vector<Prompt>& prompts,
                     TextModel& model) const override {
    return StartGenerator(request, rows, prompts, /*sources=*/nullptr, model);
  }
  absl::StatusOr<std::vector<Prompt>> PromptsOfRecord(const PredictRequest& request,
                                                      const TextModel& model,
                                                      const PromptRecord& record,
                                                      PromptCounts* counts) const override {
    const bool said = request.chat && !record.is_chat();
    ASSIGN_OR_RETURN(
        Prompt prompt,
        EncodePrompt(*model.tokenizer, model.config.transformer, ChatTimeNow(), record.prompt,
                     said ? UserMessage(record.prompt) : record.chat, counts));
    return std::vector<Prompt>{std::move(prompt)};
  }
  void Warn(const PredictRequest& request, const TextModel& /*model*/, const PromptCounts& counts,
            size_t prompts) const override {
    if (counts.doubled == 0) return;
    LogWarning(absl::StrCat(request.data, ": ", counts.doubled, " of ", prompts,
                            " prompts begin with a token that is put before each text as well: "
                            "take it out of the data"));
  }
};

}  // namespace

const Task* CausalLm() {
  static const auto& task = *new CausalLmTask;
  return &task;
}

}  // namespace spillway
