#include "engine/tasks/generating_task.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/print_json.h"
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "engine/data/data_file.h"
#include "engine/data/text_rows.h"
#include "engine/machine/memory_limits.h"
#include "engine/measures/text_measures.h"
#include "engine/run/answer_file.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/checksum.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

constexpr const char* kUsualTargetKey = "completion";

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

// Every row has the target that --target-key asks for.
absl::Status CheckTargets(const PredictRequest& request, const std::vector<PromptRecord>& records) {
  if (request.target_key.empty()) return absl::OkStatus();
  for (const PromptRecord& record : records) {
    if (record.target) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        request.data, ":", record.line, ": there is no string at \"", request.target_key,
        "\" (--target-key says where the texts are that answers are measured against; without it "
        "those of rows that have a \"",
        kUsualTargetKey, "\" are)"));
  }
  return absl::OkStatus();
}

// Adds the tokens or the sound that the model reads.
void AddToDigest(const Prompt& prompt, Digest& digest) {
  if (!prompt.sound.path.empty()) {
    digest.Update(prompt.sound.path.data(), prompt.sound.path.size());
    digest.Update(&prompt.sound.count, sizeof(prompt.sound.count));
    return;
  }
  const std::vector<int64_t>& tokens = prompt.source.empty() ? prompt.tokens : prompt.source;
  const auto count = static_cast<int64_t>(tokens.size());
  digest.Update(&count, sizeof(count));
  digest.Update(tokens.data(), tokens.size() * sizeof(int64_t));
}

absl::StatusOr<PromptFile> ReadPromptFile(const GeneratingTask& task, const PredictRequest& request,
                                          const TextModel& model) {
  PromptFile file;
  ASSIGN_OR_RETURN(file.records, task.ReadRecords(request));
  RETURN_IF_ERROR(CheckTargets(request, file.records));
  Digest digest;
  PromptCounts counts;
  for (const PromptRecord& record : file.records) {
    file.first_prompt.push_back(file.prompts.size());
    auto prompts = task.PromptsOfRecord(request, model, record, &counts);
    if (!prompts.ok()) {
      return Annotate(prompts.status(), absl::StrCat(request.data, ":", record.line));
    }
    for (Prompt& prompt : *prompts) {
      prompt.number = file.prompts.size();
      AddToDigest(prompt, digest);
      file.prompts.push_back(std::move(prompt));
    }
  }
  file.first_prompt.push_back(file.prompts.size());
  file.digest = digest.value();
  task.Warn(request, model, counts, file.prompts.size());
  return file;
}

// What answers depend on.
ordered_json IdentityOf(const PredictRequest& request, const TextModel& model,
                        const PromptFile& file) {
  const SamplingOptions& sampling = model.sampling;
  ordered_json identity = {
      {"model", request.model},
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
      {"dtype", std::string(DTypeName(request.dtype.value_or(model.dtype)))},
      {"compute", request.compute ? std::string(DTypeName(*request.compute)) : "auto"}};
  if (!sampling.stops.empty()) identity["stops"] = sampling.stops;
  return identity;
}

struct PredictRun {
  const GeneratingTask& task;
  const PredictRequest& request;
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
  const int rows = static_cast<int>(std::min<size_t>(run.request.batch, prompts.size()));
  RETURN_IF_ERROR(run.task.Start(run.request, rows, prompts, run.model));
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
    ASSIGN_OR_RETURN(ordered_json row,
                     run.task.RowOf(run.model, run.file.records[record], windows));
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
  if (run.request.as_json) {
    ordered_json json = {
        {"out", run.request.out},
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
  std::string text = absl::StrCat(run.request.out, ": ", run.answers.size(), " answers");
  if (run.seconds > 0) {
    absl::StrAppendFormat(&text, "; %d tokens in %.1f s, %.1f a second", run.tokens, run.seconds,
                          rate);
  }
  if (read > 0) absl::StrAppend(&text, "; ", FormatBytes(read), " read from NVMe");
  LogResult(absl::StrCat(text, "; ", FormatBytes(PeakResidentBytes()), " resident at the peak"));
  if (measures.texts() == 0) return;
  LogResult(absl::StrCat("  measures   ", QualityText(measures.Values()), " (of the ",
                         measures.texts(), " answers whose rows have a \"",
                         run.task.TargetKey(run.request), "\")"));
}

}  // namespace

absl::Status GeneratingTask::CheckPrompts(const std::string& path) const {
  return CheckDataFile("--data", path, IsRowFile(path) ? DataUse::kRows : DataUse::kPrompts);
}

std::string GeneratingTask::TargetKey(const PredictRequest& request) const {
  return request.target_key.empty() ? kUsualTargetKey : request.target_key;
}

absl::StatusOr<std::vector<PromptRecord>> GeneratingTask::ReadRecords(
    const PredictRequest& request) const {
  return ReadPrompts(request.data, request.prompt_key, TargetKey(request));
}

absl::StatusOr<ordered_json> GeneratingTask::RowOf(const TextModel& /*model*/,
                                                   const PromptRecord& record,
                                                   std::vector<WindowMade>& made) const {
  const Continuation& text = made.front().second;
  ordered_json row;
  if (!record.is_chat()) {
    row["prompt"] = record.prompt;
  } else {
    row["messages"] = record.chat.messages;
  }
  row["completion"] = text.text;
  row["tokens"] = text.tokens.size();
  row["stop"] = text.ended ? "end" : text.stopped ? "text" : "length";
  return row;
}

absl::Status GeneratingTask::RefuseAudio(const GenerateRequest& request) const {
  if (request.audio.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--audio is for models that hear (whisper), and ",
                                                 request.model, " reads texts: give --prompt"));
}

absl::StatusOr<bool> GeneratingTask::Predict(const PredictRequest& request,
                                             TextModel& model) const {
  for (const std::string& path : request.files) RETURN_IF_ERROR(CheckPrompts(path));
  RETURN_IF_ERROR(CheckOneFile(request));
  RETURN_IF_ERROR(RefuseRequest(!request.text_keys.label.empty(), "--label-key", "classify texts",
                                request, model));
  if (!request.text_keys.texts.empty() || request.max_length) {
    return absl::InvalidArgumentError(
        absl::StrCat("--text-keys and --seq-len are for encoders, and ", request.model,
                     " makes texts (--prompt-key says where prompts are, --tokens how many come)"));
  }
  ASSIGN_OR_RETURN(const PromptFile file, ReadPromptFile(*this, request, model));
  const bool talks = std::any_of(file.records.begin(), file.records.end(),
                                 [](const PromptRecord& one) { return one.is_chat(); });
  if (talks && !request.ignore_end) AddTurnEnd(model);
  ASSIGN_OR_RETURN(const auto answers,
                   AnswerFile::Open(request.out, IdentityOf(request, model, file)));
  PredictRun run = {*this, request, model, file, *answers};
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

}  // namespace spillway
