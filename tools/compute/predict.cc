// spillway predict, once its flags are checked: a file of prompts answered in batches.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "engine/data/data_file.h"
#include "engine/data/jsonl.h"
#include "engine/data/speech_samples.h"
#include "engine/data/text_pairs.h"
#include "engine/data/text_rows.h"
#include "engine/machine/memory_limits.h"
#include "engine/measures/text_measures.h"
#include "engine/run/last_commit.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "tools/compute/answer_file.h"
#include "tools/compute/classify_pictures.h"
#include "tools/compute/classify_texts.h"
#include "tools/compute/compute_commands.h"
#include "tools/compute/continue_texts.h"
#include "tools/compute/fill_masks.h"
#include "tools/compute/speech_prompts.h"
#include "tools/print_json.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

constexpr const char* kUsualTargetKey = "completion";

// Where neither a flag nor generation_config.json says one: the likeliest token.
constexpr double kAnswerTemperature = 0;

struct PromptFile {
  std::vector<PromptRecord> records;
  std::vector<Prompt> prompts;       // of a record one, of a sound one a window
  std::vector<size_t> first_prompt;  // [record], and behind the last one how many there are

  int64_t RecordOf(const Prompt& prompt) const {
    return std::upper_bound(first_prompt.begin(), first_prompt.end(), prompt.number) -
           first_prompt.begin() - 1;
  }
  uint64_t digest = 0;
};

std::string TargetKeyOf(const PredictTask& task, const TextModel& model) {
  if (!task.target_key.empty()) return task.target_key;
  return model.config.transformer.hears() ? kAudioTextKey : kUsualTargetKey;
}

// Of rows, as training reads them.
absl::StatusOr<std::vector<PromptRecord>> ReadSources(const PredictTask& task,
                                                      const TextModel& model) {
  PairKeys keys;
  if (model.config.transformer.hears()) keys = {kAudioKey, kAudioTextKey, ""};
  if (!task.prompt_key.empty()) keys.source = task.prompt_key;
  keys.target = TargetKeyOf(task, model);
  std::vector<PromptRecord> records;
  RETURN_IF_ERROR(
      ReadTextPairs(task.data, keys, /*needs_target=*/false, [&](const TextPairRow& pair) {
        records.push_back({pair.source, {}, pair.line, pair.target});
        return absl::OkStatus();
      }));
  return records;
}

// Who asks for targets has them in every row.
absl::Status CheckTargets(const PredictTask& task, const std::vector<PromptRecord>& records) {
  if (task.target_key.empty()) return absl::OkStatus();
  for (const PromptRecord& record : records) {
    if (record.target) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        task.data, ":", record.line, ": there is no string at \"", task.target_key,
        "\" (--target-key says where the texts are that answers are measured against; without it "
        "those of rows that have a \"",
        kUsualTargetKey, "\" are)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<PromptFile> ReadPromptFile(const PredictTask& task, const TextModel& model) {
  PromptFile file;
  const bool has_encoder = model.config.transformer.encoder != nullptr;
  if (model.config.transformer.hears() && !IsRowFile(task.data)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data ", task.data,
                     ": sounds are named by the rows of a .jsonl, .csv or .tsv (\"audio\": "
                     "\"FILE.wav\"); spillway generate --audio FILE writes down one"));
  }
  if (has_encoder && IsRowFile(task.data)) {
    ASSIGN_OR_RETURN(file.records, ReadSources(task, model));
  } else {
    ASSIGN_OR_RETURN(file.records,
                     ReadPrompts(task.data, task.prompt_key, TargetKeyOf(task, model)));
  }
  RETURN_IF_ERROR(CheckTargets(task, file.records));
  Digest digest;
  PromptCounts counts;
  const auto add = [&](Prompt prompt) {
    prompt.number = file.prompts.size();
    file.prompts.push_back(std::move(prompt));
  };
  for (PromptRecord& record : file.records) {
    file.first_prompt.push_back(file.prompts.size());
    if (model.config.transformer.hears()) {
      auto windows = PromptsOfSound(model, AudioPath(task.data, record.prompt));
      if (!windows.ok()) {
        return Annotate(windows.status(), absl::StrCat(task.data, ":", record.line));
      }
      for (Prompt& window : *windows) {
        digest.Update(window.sound.path.data(), window.sound.path.size());
        digest.Update(&window.sound.count, sizeof(window.sound.count));
        add(std::move(window));
      }
      continue;
    }
    const bool said = task.chat && !record.is_chat();
    auto prompt = EncodePrompt(task, model, record.prompt,
                               said ? UserMessage(record.prompt) : record.chat, &counts);
    if (!prompt.ok()) {
      return Annotate(prompt.status(), absl::StrCat(task.data, ":", record.line));
    }
    const std::vector<int64_t>& tokens = has_encoder ? prompt->source : prompt->tokens;
    const auto count = static_cast<int64_t>(tokens.size());
    digest.Update(&count, sizeof(count));
    digest.Update(tokens.data(), tokens.size() * sizeof(int64_t));
    add(*std::move(prompt));
  }
  file.first_prompt.push_back(file.prompts.size());
  file.digest = digest.value();
  if (counts.doubled > 0) {
    LogWarning(absl::StrCat(task.data, ": ", counts.doubled, " of ", file.prompts.size(),
                            " prompts begin with a token that is put before each text as well: "
                            "take it out of the data"));
  }
  if (counts.cut > 0) {
    LogWarning(absl::StrCat(task.data, ": ", counts.cut, " of ", file.prompts.size(),
                            " sources are longer than --max-source-length ",
                            LongestSource(task, model.config.transformer), " and lose their end"));
  }
  return file;
}

// What answers depend on.
ordered_json IdentityOf(const PredictTask& task, const TextModel& model, const PromptFile& file) {
  const SamplingOptions& sampling = model.sampling;
  ordered_json identity = {
      {"model", task.model},
      {"weights", model.weights_name},
      {"prompts", absl::StrFormat("%016x", file.digest)},
      {"tokens", model.new_tokens},
      {"temperature", sampling.temperature},
      {"top_k", sampling.top_k},
      {"top_p", sampling.top_p},
      {"seed", sampling.seed},
      {"repetition_penalty", sampling.repetition_penalty},
      {"no_repeat_ngram", sampling.no_repeat_ngram},
      {"min_tokens", sampling.min_tokens},
      {"min_length", sampling.min_length},
      {"ends", sampling.ends},
      {"beams", sampling.beams},
      {"length_penalty", sampling.length_penalty},
      {"early_stopping", static_cast<int>(sampling.early_stopping)},
      {"source_no_repeat_ngram", sampling.source_no_repeat_ngram},
      {"forced", {sampling.forced_first, sampling.forced_last}},
      {"suppressed", {sampling.suppressed, sampling.suppressed_first}},
      {"speech",
       {model.speech.language, model.speech.translates, model.speech.timestamps,
        sampling.last_first_timestamp}},
      {"dtype", std::string(DTypeName(task.dtype.value_or(model.dtype)))},
      {"compute", task.compute ? std::string(DTypeName(*task.compute)) : "auto"}};
  if (!sampling.stops.empty()) identity["stops"] = sampling.stops;
  return identity;
}

// `windows`: what was made of each of the record's prompts, in any order.
absl::StatusOr<ordered_json> RowOf(const TextModel& model, const PromptRecord& record,
                                   std::vector<WindowMade>& windows) {
  ordered_json row;
  if (model.config.transformer.hears()) {
    std::sort(windows.begin(), windows.end(),
              [](const auto& a, const auto& b) { return a.first.number < b.first.number; });
    row["audio"] = record.prompt;
    ASSIGN_OR_RETURN(const ordered_json heard, RowOfSound(model, windows));
    row.update(heard);
    return row;
  }
  const Continuation& made = windows.front().second;
  if (!record.is_chat()) {
    row["prompt"] = record.prompt;
  } else {
    row["messages"] = record.chat.messages;
  }
  row["completion"] = made.text;
  row["tokens"] = made.tokens.size();
  row["stop"] = made.ended ? "end" : made.stopped ? "text" : "length";
  return row;
}

struct PredictRun {
  const PredictTask& task;
  TextModel& model;
  const PromptFile& file;
  AnswerFile& answers;
  int64_t tokens = 0;  // of this run
  double seconds = 0;
};

absl::Status AnswerAll(PredictRun& run) {
  std::vector<Prompt> prompts;
  for (const Prompt& prompt : run.file.prompts) {
    if (!run.answers.Has(run.file.RecordOf(prompt))) prompts.push_back(prompt);
  }
  if (run.answers.size() > 0) {
    LogInfo(absl::StrCat(run.answers.size(), " of ", run.file.records.size(), " answers are in ",
                         run.answers.partial_path(), " already"));
  }
  if (prompts.empty()) return absl::OkStatus();
  const int rows = static_cast<int>(std::min<size_t>(run.task.batch, prompts.size()));
  RETURN_IF_ERROR(StartGenerator(run.task, rows, prompts, run.model));
  RETURN_IF_ERROR(FindLanguages(run.model, rows, prompts));
  const auto start = std::chrono::steady_clock::now();
  Progress progress("answering", static_cast<int64_t>(run.file.records.size()));
  std::map<int64_t, std::vector<WindowMade>> unfinished;  // [record]
  ContinueHooks hooks;
  hooks.on_end = [&](size_t prompt, const Continuation& whole) -> absl::Status {
    const int64_t record = run.file.RecordOf(prompts[prompt]);
    run.tokens += static_cast<int64_t>(whole.tokens.size());
    std::vector<WindowMade>& windows = unfinished[record];
    windows.emplace_back(prompts[prompt], whole);
    if (windows.size() < run.file.first_prompt[record + 1] - run.file.first_prompt[record]) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(ordered_json row, RowOf(run.model, run.file.records[record], windows));
    unfinished.erase(record);
    RETURN_IF_ERROR(run.answers.Add(record, std::move(row)));
    progress.Update(static_cast<int64_t>(run.answers.size()));
    return absl::OkStatus();
  };
  hooks.after_tokens = [] {
    return StopSignal::received() != 0 ? absl::CancelledError("") : absl::OkStatus();
  };
  const absl::Status status = ContinueTexts(run.model, prompts, rows, hooks);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return status;
}

// Of all answers whose rows say what they should be, those of an earlier run included.
TextMeasures MeasureAnswers(const PredictRun& run) {
  TextMeasures measures;
  for (size_t row = 0; row < run.file.records.size(); ++row) {
    const std::optional<std::string>& target = run.file.records[row].target;
    if (!target) continue;
    const ordered_json answer = run.answers.Answer(static_cast<int64_t>(row));
    const auto made = answer.find("completion");
    const bool is_text = made != answer.end() && made->is_string();
    measures.Add(CompareTexts(is_text ? made->get<std::string>() : "", *target));
  }
  return measures;
}

ordered_json MeasuresJson(const TextMeasures& measures) {
  ordered_json json;
  for (const QualityMeasure& one : measures.Values()) json[one.name] = one.value;
  return json;
}

void PrintPredicted(const PredictRun& run, const TextMeasures& measures) {
  const Generator* const generator = run.model.generator.get();
  const uint64_t read =
      generator ? generator->stats().io.read_bytes + generator->kept_io().read_bytes : 0;
  const double rate = run.seconds > 0 ? static_cast<double>(run.tokens) / run.seconds : 0;
  if (run.task.as_json) {
    ordered_json json = {
        {"out", run.task.out},
        {"rows", run.answers.size()},
        {"tokens", run.tokens},
        {"seconds", run.seconds},
        {"tokens_per_second", rate},
        {"key_value_cache_bytes", generator ? generator->kept_bytes() : 0},
        {"key_value_cache_tier",
         std::string(TierName(generator ? generator->kept_tier() : Tier::kDevice))},
        {"nvme_read_bytes", read},
        {"peak_rss_bytes", PeakResidentBytes()}};
    if (measures.texts() > 0) json["measures"] = MeasuresJson(measures);
    PrintJson(json);
    return;
  }
  std::string text = absl::StrCat(run.task.out, ": ", run.answers.size(), " answers");
  if (run.seconds > 0) {
    absl::StrAppendFormat(&text, "; %d tokens in %.1f s, %.1f a second", run.tokens, run.seconds,
                          rate);
  }
  if (read > 0) absl::StrAppend(&text, "; ", FormatBytes(read), " read from NVMe");
  LogResult(absl::StrCat(text, "; ", FormatBytes(PeakResidentBytes()), " resident at the peak"));
  if (measures.texts() == 0) return;
  LogResult(absl::StrCat("  measures   ", QualityText(measures.Values()), " (of the ",
                         measures.texts(), " answers whose rows have a \"",
                         TargetKeyOf(run.task, run.model), "\")"));
}

// That the files are there, and of formats that the model's data may have.
absl::Status CheckTaskData(const PredictTask& task, const ModelConfig& config) {
  const TransformerConfig& transformer = config.transformer;
  const bool of_words = transformer.classifier && transformer.classifier->of_tokens;
  for (const std::string& file : task.files) {
    const DataUse use = of_words                                    ? DataUse::kWords
                        : transformer.classifier || IsRowFile(file) ? DataUse::kRows
                                                                    : DataUse::kPrompts;
    const bool sees_or_hears = config.resnet || (transformer.hears() && !IsRowFile(file));
    RETURN_IF_ERROR(sees_or_hears ? CheckDataExists("--data", file)
                                  : CheckDataFile("--data", file, use));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> PredictFile(const PredictTask& task) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TextModel> model, OpenTextModel(task, kAnswerTemperature));
  RETURN_IF_ERROR(CheckTaskData(task, model->config));
  if (model->config.resnet) return ClassifyPictures(task, *model);
  if (task.files.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--data: one file at a time, unless it is pictures; ", task.model, " is a model of texts"));
  }
  const TransformerConfig& config = model->config.transformer;
  if ((config.masked || config.classifier) && !task.target_key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--target-key is for models that make texts, and ", task.model, " makes none"));
  }
  if (!config.classifier && !task.text_keys.label.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--label-key is for models that classify texts, and ", task.model, " does not"));
  }
  if (config.masked) return FillMasksOfFile(task, *model);
  if (config.classifier && config.classifier->of_tokens) return ClassifyWordsOfFile(task, *model);
  if (config.classifier) return ClassifyFile(task, *model);
  if (!task.text_keys.texts.empty() || task.max_length) {
    return absl::InvalidArgumentError(
        absl::StrCat("--text-keys and --seq-len are for encoders, and ", task.model,
                     " makes texts (--prompt-key says where prompts are, --tokens how many come)"));
  }
  ASSIGN_OR_RETURN(const PromptFile file, ReadPromptFile(task, *model));
  const bool talks = std::any_of(file.records.begin(), file.records.end(),
                                 [](const PromptRecord& one) { return one.is_chat(); });
  if (talks && !task.ignore_end) AddTurnEnd(*model);
  ASSIGN_OR_RETURN(const auto answers, AnswerFile::Open(task.out, IdentityOf(task, *model, file)));
  PredictRun run = {task, *model, file, *answers};
  const absl::Status status = AnswerAll(run);
  if (absl::IsCancelled(status)) {
    LogResult(absl::StrCat("stopped by ", StopSignal::Name(StopSignal::received()), " after ",
                           answers->size(), " of ", file.records.size(), " answers, which ",
                           answers->partial_path(), " keeps: the same command goes on"));
    return false;
  }
  RETURN_IF_ERROR(status);
  const TextMeasures measures = MeasureAnswers(run);
  RETURN_IF_ERROR(answers->Finish());
  PrintPredicted(run, measures);
  return true;
}

}  // namespace

CommandOutcome Predict(const PredictTask& task) {
  const StopSignal signals;
  bool whole = false;
  const absl::Status status = ReadLastCommit(task.model, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(whole, PredictFile(task));
    return absl::OkStatus();
  });
  if (!status.ok()) return {status};
  return {absl::OkStatus(), whole ? 0 : 75};
}

}  // namespace spillway
