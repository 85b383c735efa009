#include "tools/compute/run_data.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/civil_time.h"
#include "engine/chat/chat_format.h"
#include "engine/datasets/labelled_dataset.h"
#include "engine/datasets/masked_dataset.h"
#include "engine/datasets/sample_dataset.h"
#include "engine/datasets/speech_dataset.h"
#include "engine/datasets/token_dataset.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {

// The nearest folder above OUTPUT that exists.
std::string ScratchDirectory(const std::string& output) {
  FileSystem& files = FileSystem::Real();
  for (std::string path = files.Resolve(output);; path = ParentPath(path)) {
    const auto found = files.Look(path, SymbolicLink::kFollow);
    if (found.ok() && found->kind == FileInfo::Kind::kDirectory) return path;
    if (!found.ok() && !absl::IsNotFound(found.status())) return ".";  // train refuses OUTPUT
  }
}

namespace {

constexpr int64_t kUsualLength = 1024;
constexpr int64_t kUsualTargetLength = 128;

absl::Status RefuseFlags(bool given, const char* flags, const char* tasks, const RunConfig& config,
                         const TransformerConfig& model) {
  if (!given) return absl::OkStatus();
  const char* kind = model.classifier ? "classifies texts"
                     : model.hears()  ? "makes texts from sounds"
                     : model.encoder  ? "makes texts from texts"
                     : model.masked   ? "is a masked language model"
                                      : "is a language model";
  return absl::InvalidArgumentError(
      absl::StrCat(flags, ": for models that ", tasks, ", and ", config.model, " ", kind));
}

absl::Status ResolveLength(const char* flag, int64_t positions, int64_t usual, int64_t* length) {
  if (*length == 0) *length = std::min(positions, usual);
  if (*length <= positions) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", *length, " is more than the ", positions, " positions of the model"));
}

// REQUIRES: the longest target is known.
absl::Status ResolveEvaluationTexts(const TransformerConfig& model, RunConfig& config) {
  return ResolveLength("--generation-max-length", model.longest_sequence(),
                       config.pairs.max_target_length + 1, &config.evaluation_texts.max_length);
}

absl::Status ResolveSpeech(RunConfig& config, TransformerConfig& model) {
  PairChoice& pairs = config.pairs;
  const bool given = config.seq_len > 0 || pairs.max_source_length > 0 ||
                     !pairs.keys.source_prefix.empty() || config.samples == SampleLayout::kPacked;
  RETURN_IF_ERROR(RefuseFlags(given,
                              "--seq-len, --packing, --max-source-length, --source-prefix (here "
                              "--max-target-length alone)",
                              "read tokens", config, model));
  RETURN_IF_ERROR(CheckSpeechPreprocessor(config.model, *model.encoder->speech));
  if (!pairs.source_key_given) pairs.keys.source = kAudioKey;
  if (!pairs.target_key_given) pairs.keys.target = kAudioTextKey;
  RETURN_IF_ERROR(ResolveLength("--max-target-length", model.positions, model.positions,
                                &pairs.max_target_length));
  config.seq_len = pairs.max_target_length;
  model.label_smoothing = config.train.label_smoothing;
  return ResolveEvaluationTexts(model, config);
}

}  // namespace

absl::Status ResolveTask(RunConfig& config, TransformerConfig& model) {
  const bool has_labels = !config.text_keys.texts.empty() || !config.text_keys.label.empty();
  const PairChoice& pairs = config.pairs;
  const int64_t positions = model.longest_sequence();
  if (model.classifier) {
    RETURN_IF_ERROR(RefuseFlags(config.train.label_smoothing > 0, "--label-smoothing", "make texts",
                                config, model));
  } else {
    RETURN_IF_ERROR(
        RefuseFlags(has_labels, "--text-keys, --label-key", "classify texts", config, model));
  }
  RETURN_IF_ERROR(RefuseFlags(config.mask_probability && !model.masked,
                              "--mask-probability (--mlm_probability)", "find masked tokens",
                              config, model));
  if (!model.hears()) {
    RETURN_IF_ERROR(RefuseFlags(config.speech_given, "--language, --transcribe-task",
                                "make texts from sounds", config, model));
  }
  if (model.classifier || model.masked || model.hears()) {
    RETURN_IF_ERROR(RefuseFlags(!config.sample_prompts.file.empty(), "--sample-prompts",
                                "continue texts, or make them from texts", config, model));
  }
  if (model.hears()) return ResolveSpeech(config, model);
  if (model.encoder == nullptr) {
    RETURN_IF_ERROR(RefuseFlags(pairs.given,
                                "--source-key, --target-key, --source-prefix, "
                                "--max-source-length, --max-target-length",
                                "have an encoder and a decoder", config, model));
    RETURN_IF_ERROR(RefuseFlags(config.evaluation_texts.made, "--predict-with-generate",
                                "have an encoder and a decoder", config, model));
    RETURN_IF_ERROR(ResolveLength("--seq-len", positions, kUsualLength, &config.seq_len));
  } else {
    RETURN_IF_ERROR(RefuseFlags(config.seq_len > 0,
                                "--seq-len (here --max-source-length and --max-target-length)",
                                "have one stack of layers", config, model));
    RETURN_IF_ERROR(ResolveLength("--max-source-length", positions, kUsualLength,
                                  &config.pairs.max_source_length));
    RETURN_IF_ERROR(ResolveLength("--max-target-length", positions, kUsualTargetLength,
                                  &config.pairs.max_target_length));
    config.seq_len = config.pairs.max_source_length;
    RETURN_IF_ERROR(ResolveEvaluationTexts(model, config));
  }
  model.label_smoothing = config.train.label_smoothing;
  if (!model.classifier && model.encoder == nullptr && !model.masked) return absl::OkStatus();
  if (config.samples == SampleLayout::kByData) config.samples = SampleLayout::kWindows;
  if (config.samples == SampleLayout::kPacked) {
    return absl::InvalidArgumentError(
        absl::StrCat("--packing (--samples packed) is for language models: texts that are ",
                     model.classifier ? "classified"
                     : model.masked   ? "masked"
                                      : "made from texts",
                     " are padded"));
  }
  if (!model.classifier || model.classifier->problem) return absl::OkStatus();
  ASSIGN_OR_RETURN(model.classifier->problem, FindProblem(config.data.front(), config.text_keys));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RunData>> RunData::Open(const RunConfig& config,
                                                       const TransformerConfig& model,
                                                       const Tokenizer* tokenizer,
                                                       const PairLengths& samples) {
  std::unique_ptr<RunData> data(new RunData(config, model, tokenizer, samples));
  ASSIGN_OR_RETURN(data->train_, data->Lay(config.data, false));
  const bool evaluates = !config.eval_data.empty();
  if (evaluates) {
    ASSIGN_OR_RETURN(data->evaluation_, data->Lay(config.eval_data, true));
    data->OpenDataset(nullptr, data->evaluation_);
  }
  data->OpenDataset(evaluates ? &data->evaluation_ : nullptr, data->train_);
  return data;
}

// Null without a tokenizer or a template.
const ChatFormat* ChatOf(const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return nullptr;
  const auto chat = tokenizer->chat();
  return chat.ok() ? *chat : nullptr;
}

std::vector<std::pair<std::string, std::string>> RunData::Identity() const {
  if (model_.hears()) {
    const SpeechTask& task = config_.speech;
    return {{"lengths", absl::StrCat(config_.pairs.max_target_length,
                                     config_.pad_to_max_length ? " to the maximum" : "")},
            {"speech", absl::StrCat(task.language, task.translates ? " translated" : "")}};
  }
  if (model_.encoder) {
    const PairChoice& pairs = config_.pairs;
    return {{"lengths", absl::StrCat(pairs.max_source_length, ", ", pairs.max_target_length,
                                     config_.pad_to_max_length ? " to the maximum" : "")}};
  }
  std::vector<std::pair<std::string, std::string>> identity = {
      {"seq-len", absl::StrCat(config_.seq_len)}};
  if (model_.classifier) {
    identity.emplace_back("task", model_.classifier->of_tokens
                                      ? "token_classification"
                                      : ProblemName(*model_.classifier->problem));
  }
  const ChatFormat* const chat = ChatOf(tokenizer_);
  if (chat != nullptr && chat->reads_clock() && train_.tokens->has_prompts() &&
      config_.chat_clock) {
    identity.emplace_back(kChatDateName,
                          absl::FormatCivilTime(absl::CivilDay(*config_.chat_clock)));
  }
  if (model_.masked) {
    identity.emplace_back("masked",
                          absl::StrCat(config_.mask_probability.value_or(kMaskProbability)));
  }
  // Of windows it is not said: commits of before there was anything else do not either.
  if (train_.layout != SampleLayout::kWindows) {
    identity.emplace_back(kSamplesName,
                          absl::StrCat(train_.layout == SampleLayout::kPacked ? "packed" : "padded",
                                       config_.pad_to_max_length ? " to the maximum" : ""));
  }
  return identity;
}

absl::StatusOr<RunData::Laid> RunData::LayLabelled(const std::vector<std::string>& files) const {
  LabelledSamplesOptions options;
  options.tokenizer = tokenizer_;
  options.keys = config_.text_keys;
  options.seq_len = config_.seq_len;
  options.scratch_directory = ScratchDirectory(config_.train.output);
  Laid laid;
  ASSIGN_OR_RETURN(laid.labelled, LabelledSamples::Read(files, model_, options));
  LogInfo(absl::StrCat(absl::StrJoin(files, ", "), ": ", laid.labelled->size(),
                       " texts; the longest has ", laid.labelled->longest(), " tokens"));
  return laid;
}

absl::StatusOr<RunData::Laid> RunData::LayPairs(const std::vector<std::string>& files) const {
  PairedSamplesOptions options;
  options.tokenizer = tokenizer_;
  options.keys = config_.pairs.keys;
  options.max_source_length = config_.pairs.max_source_length;
  options.max_target_length = config_.pairs.max_target_length;
  options.vocabulary = model_.vocabulary;
  options.end_token = model_.end_token;
  options.scratch_directory = ScratchDirectory(config_.train.output);
  Laid laid;
  ASSIGN_OR_RETURN(laid.pairs, PairedSamples::Read(files, options));
  LogInfo(absl::StrCat(absl::StrJoin(files, ", "), ": ", laid.pairs->size(),
                       " pairs; the longest source has ", laid.pairs->longest_source(),
                       " tokens, the longest target ", laid.pairs->longest_target()));
  return laid;
}

absl::StatusOr<RunData::Laid> RunData::LaySpeech(const std::vector<std::string>& files) const {
  SpeechSamplesOptions options;
  options.tokenizer = tokenizer_;
  options.keys = config_.pairs.keys;
  options.task = config_.speech;
  options.max_seconds = SpeechSecondsOf(model_);
  options.max_target_length = config_.pairs.max_target_length;
  options.vocabulary = model_.vocabulary;
  options.end_token = model_.end_token;
  options.scratch_directory = ScratchDirectory(config_.train.output);
  Laid laid;
  ASSIGN_OR_RETURN(laid.speech, SpeechSamples::Read(files, options));
  LogInfo(absl::StrFormat("%s: %d sounds; the longest has %.1f s, the longest text %d tokens",
                          absl::StrJoin(files, ", "), laid.speech->size(),
                          laid.speech->longest_seconds(), laid.speech->longest_target()));
  return laid;
}

absl::StatusOr<RunData::Laid> RunData::Lay(const std::vector<std::string>& files,
                                           bool evaluated) const {
  if (model_.classifier) return LayLabelled(files);
  if (model_.hears()) return LaySpeech(files);
  if (model_.encoder) return LayPairs(files);
  TokenSourceOptions options;
  options.files = files;
  options.tokenizer = tokenizer_;
  options.scratch_directory = ScratchDirectory(config_.train.output);
  options.vocabulary = model_.vocabulary;
  // What the tokenizer puts around a window, or a line that is masked as a whole, is put there
  // later.
  options.begins_lines = !model_.masked;
  options.ends_lines = !model_.masked || config_.samples == SampleLayout::kWindows;
  if (model_.masked) RETURN_IF_ERROR(MaskTokenOf(tokenizer_).status());
  options.chat_clock = config_.chat_clock;
  Laid laid;
  ASSIGN_OR_RETURN(laid.tokens, TokenSource::Open(options));
  const TokenSource& tokens = *laid.tokens;
  if (!evaluated) {
    laid.layout = config_.samples == SampleLayout::kByData ? LayoutByData(tokens) : config_.samples;
  } else if (tokens.has_samples()) {
    laid.layout = train_.layout;
  }
  RETURN_IF_ERROR(CheckSampleLayout(laid.layout, tokens));
  RETURN_IF_ERROR(model_.masked ? LayMasked(laid) : LayRows(laid));
  return laid;
}

absl::Status RunData::LayRows(Laid& laid) const {
  const TokenSource& tokens = *laid.tokens;
  const int64_t seq_len = config_.seq_len;
  const bool by_data = config_.samples == SampleLayout::kByData;
  if (laid.layout == SampleLayout::kWindows) {
    RETURN_IF_ERROR(tokens.CheckWindow(seq_len));
    if (!tokens.has_samples() && !tokens.has_prompts()) return absl::OkStatus();
    LogInfo(absl::StrCat(tokens.names(), ": windows of ", seq_len, " tokens",
                         !by_data ? ""
                         : tokens.has_prompts()
                             ? ", as not all files say where samples begin (--samples)"
                             : ", as its lines are plain texts (--samples padded: a row each)"));
    return absl::OkStatus();
  }
  const bool pack = laid.layout == SampleLayout::kPacked;
  ASSIGN_OR_RETURN(
      laid.rows, SampleRows::Lay(tokens, {seq_len, pack, ScratchDirectory(config_.train.output)}));
  const SampleRows& rows = *laid.rows;
  std::string text = absl::StrCat(tokens.names(), ": ", rows.samples(), " samples");
  if (pack) {
    absl::StrAppendFormat(
        &text, " packed into %d rows, which are %.0f%% full", rows.size(),
        100.0 * static_cast<double>(rows.positions()) / static_cast<double>(rows.size() * seq_len));
  } else {
    absl::StrAppend(&text, ", padded", by_data ? ", as prompts and conversations are" : "",
                    "; the longest has ", rows.longest(), " positions");
  }
  LogInfo(text);
  return absl::OkStatus();
}

absl::Status RunData::LayMasked(Laid& laid) const {
  MaskedTextsOptions options;
  options.tokenizer = tokenizer_;
  options.seq_len = config_.seq_len;
  options.config = &model_;
  options.lines = laid.layout == SampleLayout::kPadded;
  options.scratch_directory = ScratchDirectory(config_.train.output);
  ASSIGN_OR_RETURN(laid.masked, MaskedTexts::Lay(laid.tokens.get(), options));
  LogInfo(absl::StrCat(laid.tokens->names(), ": ", laid.masked->size(),
                       options.lines ? " lines; the longest has " : " windows of ",
                       laid.masked->longest(), " tokens, of which some are masked"));
  return absl::OkStatus();
}

DatasetSize RunData::SizeOf(const Laid& laid) const {
  DatasetSize size;
  if (laid.dataset == nullptr) return size;
  size.samples = laid.dataset->size();
  if (laid.labelled) {
    size.unit = "texts";
    size.tokens = laid.labelled->tokens();
    if (!model_.classifier->of_tokens) size.labels = size.samples;
  } else if (laid.pairs) {
    size.unit = "pairs";
    size.tokens = laid.pairs->source_tokens() + laid.pairs->target_tokens();
    size.labels = laid.pairs->target_tokens();
  } else if (laid.speech) {
    size.unit = "sounds";
    size.tokens = size.labels = laid.speech->target_tokens();
  } else if (laid.masked) {
    size.unit = laid.layout == SampleLayout::kPadded ? "lines" : "windows";
    size.tokens = laid.masked->tokens();
  } else if (laid.rows) {
    size.unit = laid.layout == SampleLayout::kPacked ? "rows" : "lines";
    size.tokens = laid.rows->positions();
    size.labels = laid.rows->labels();
  } else {
    size.unit = "windows";
    size.tokens = size.samples * config_.seq_len;
  }
  return size;
}

void RunData::OpenDataset(const Laid* beside, Laid& laid) const {
  const int64_t seq_len = config_.seq_len;
  const bool to_max = config_.pad_to_max_length;
  const EvaluationTextsChoice& texts = config_.evaluation_texts;
  const int64_t made = std::max(beside && texts.made ? texts.max_length - 1 : 0, samples_.target);
  if (laid.labelled) {
    const int64_t evaluated = beside ? beside->labelled->longest() : 0;
    laid.dataset = std::make_unique<LabelledDataset>(
        laid.labelled.get(), &model_, LabelledDatasetOptions{seq_len, to_max, evaluated});
  } else if (laid.pairs) {
    PairDatasetOptions options;
    options.made = made;
    options.most = {config_.pairs.max_source_length, config_.pairs.max_target_length};
    options.pad_to_max_length = to_max;
    if (beside) {
      options.evaluated = {std::max(beside->pairs->longest_source(), samples_.source),
                           beside->pairs->longest_target()};
    }
    auto dataset = std::make_unique<PairDataset>(laid.pairs.get(), &model_, options);
    laid.targets = dataset.get();
    laid.dataset = std::move(dataset);
  } else if (laid.speech) {
    const int64_t evaluated = beside ? beside->speech->longest_target() : 0;
    auto dataset = std::make_unique<SpeechDataset>(
        laid.speech.get(), &model_,
        SpeechDatasetOptions{config_.pairs.max_target_length, to_max, evaluated, made});
    laid.targets = dataset.get();
    laid.dataset = std::move(dataset);
  } else if (laid.masked) {
    MaskedDatasetOptions options;
    options.seq_len = seq_len;
    options.pad_to_max_length = to_max;
    options.evaluated_positions = beside ? beside->masked->longest() : 0;
    options.rule.probability = config_.mask_probability.value_or(kMaskProbability);
    options.rule.seed = config_.train.seed;
    options.rule.mask_token = *tokenizer_->mask_token();
    options.rule.tokens = tokenizer_->vocabulary_size();
    laid.dataset = std::make_unique<MaskedDataset>(laid.masked.get(), &model_, options);
  } else if (laid.rows) {
    const int64_t evaluated = beside == nullptr ? 0
                              : beside->rows    ? std::max(beside->rows->longest(), samples_.target)
                                                : seq_len;
    laid.dataset = std::make_unique<SampleDataset>(
        laid.tokens.get(), laid.rows.get(),
        SampleDatasetOptions{seq_len, laid.layout == SampleLayout::kPacked, to_max, evaluated});
  } else {
    laid.dataset = std::make_unique<TokenDataset>(laid.tokens.get(), seq_len);
  }
}

}  // namespace spillway
