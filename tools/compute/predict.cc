// spillway predict, once its flags are checked: a file of prompts answered in batches.
#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "engine/data/jsonl.h"
#include "engine/data/text_pairs.h"
#include "engine/data/text_rows.h"
#include "engine/machine/memory_limits.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "tools/compute/answer_file.h"
#include "tools/compute/classify_texts.h"
#include "tools/compute/commands.h"
#include "tools/compute/continue_texts.h"
#include "tools/compute/fill_masks.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

// Where neither a flag nor generation_config.json says one: the likeliest token.
constexpr double kAnswerTemperature = 0;

struct PromptFile {
  std::vector<PromptRecord> records;
  std::vector<Prompt> prompts;  // [record]
  uint64_t digest = 0;
};

// Of rows, as training reads them.
absl::StatusOr<std::vector<PromptRecord>> ReadSources(const PredictTask& task) {
  PairKeys keys;
  if (!task.prompt_key.empty()) keys.source = task.prompt_key;
  std::vector<PromptRecord> records;
  RETURN_IF_ERROR(
      ReadTextPairs(task.data, keys, /*needs_target=*/false, [&](const TextPairRow& pair) {
        records.push_back({pair.source, nullptr, pair.line});
        return absl::OkStatus();
      }));
  return records;
}

absl::StatusOr<PromptFile> ReadPromptFile(const PredictTask& task, const TextModel& model) {
  PromptFile file;
  const bool has_encoder = model.config.decoder.encoder != nullptr;
  if (has_encoder && IsRowFile(task.data)) {
    ASSIGN_OR_RETURN(file.records, ReadSources(task));
  } else {
    ASSIGN_OR_RETURN(file.records, ReadPrompts(task.data, task.prompt_key));
  }
  Digest digest;
  int64_t cut = 0;
  for (PromptRecord& record : file.records) {
    const bool said = task.chat && record.messages.is_null();
    auto prompt = EncodePrompt(task, model, record.prompt,
                               said ? UserMessage(record.prompt) : record.messages, &cut);
    if (!prompt.ok()) {
      return Annotate(prompt.status(), absl::StrCat(task.data, ":", record.line));
    }
    const std::vector<int64_t>& tokens = has_encoder ? prompt->source : prompt->tokens;
    const auto count = static_cast<int64_t>(tokens.size());
    digest.Update(&count, sizeof(count));
    digest.Update(tokens.data(), tokens.size() * sizeof(int64_t));
    prompt->number = file.prompts.size();
    file.prompts.push_back(*std::move(prompt));
  }
  file.digest = digest.value();
  if (cut > 0) {
    LogWarning(absl::StrCat(task.data, ": ", cut, " of ", file.prompts.size(),
                            " sources are longer than --max-source-length and lose their end"));
  }
  return file;
}

// What answers depend on.
ordered_json IdentityOf(const PredictTask& task, const TextModel& model, const PromptFile& file) {
  const SamplingOptions& sampling = model.sampling;
  return {{"model", task.model},
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
          {"dtype", std::string(DTypeName(task.dtype.value_or(model.dtype)))},
          {"compute", task.compute ? std::string(DTypeName(*task.compute)) : "auto"}};
}

ordered_json RowOf(const PromptRecord& record, const Continuation& made) {
  ordered_json row;
  if (record.messages.is_null()) {
    row["prompt"] = record.prompt;
  } else {
    row["messages"] = record.messages;
  }
  row["completion"] = made.text;
  row["tokens"] = made.tokens.size();
  row["stop"] = made.ended ? "end" : "length";
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
  for (size_t i = 0; i < run.file.records.size(); ++i) {
    if (!run.answers.Has(static_cast<int64_t>(i))) prompts.push_back(run.file.prompts[i]);
  }
  if (prompts.size() < run.file.records.size()) {
    LogInfo(absl::StrCat(run.file.records.size() - prompts.size(), " of ", run.file.records.size(),
                         " answers are in ", run.task.out, ".partial already"));
  }
  if (prompts.empty()) return absl::OkStatus();
  const int rows = static_cast<int>(std::min<size_t>(run.task.batch, prompts.size()));
  RETURN_IF_ERROR(StartGenerator(run.task, rows, prompts, run.model));
  const auto start = std::chrono::steady_clock::now();
  Progress progress("answering", static_cast<int64_t>(run.file.records.size()),
                    static_cast<int64_t>(run.answers.size()));
  ContinueHooks hooks;
  hooks.on_end = [&](size_t prompt, const Continuation& whole) -> absl::Status {
    const auto row = static_cast<int64_t>(prompts[prompt].number);
    run.tokens += static_cast<int64_t>(whole.tokens.size());
    RETURN_IF_ERROR(run.answers.Add(row, RowOf(run.file.records[row], whole)));
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

void PrintPredicted(const PredictRun& run) {
  const Generator* const generator = run.model.generator.get();
  const uint64_t read =
      generator ? generator->stats().io.read_bytes + generator->kept_io().read_bytes : 0;
  const double rate = run.seconds > 0 ? static_cast<double>(run.tokens) / run.seconds : 0;
  if (run.task.as_json) {
    const ordered_json json = {
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
    std::printf("%s\n", json.dump().c_str());
    return;
  }
  std::string text = absl::StrCat(run.task.out, ": ", run.answers.size(), " answers");
  if (run.seconds > 0) {
    absl::StrAppendFormat(&text, "; %d tokens in %.1f s, %.1f a second", run.tokens, run.seconds,
                          rate);
  }
  if (read > 0) absl::StrAppend(&text, "; ", FormatBytes(read), " read from NVMe");
  LogInfo(absl::StrCat(text, "; ", FormatBytes(PeakResidentBytes()), " resident at the peak"));
}

absl::StatusOr<bool> PredictFile(const PredictTask& task) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TextModel> model, OpenTextModel(task, kAnswerTemperature));
  const DecoderConfig& config = model->config.decoder;
  if (config.masked) return FillMasksOfFile(task, *model);
  if (config.classifier && config.classifier->of_tokens) return ClassifyWordsOfFile(task, *model);
  if (config.classifier) return ClassifyFile(task, *model);
  if (!task.text_keys.texts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--text-keys is for encoders, and ", task.model,
                     " is a language model (--prompt-key says where prompts are)"));
  }
  ASSIGN_OR_RETURN(const PromptFile file, ReadPromptFile(task, *model));
  ASSIGN_OR_RETURN(const auto answers, AnswerFile::Open(task.out, IdentityOf(task, *model, file)));
  PredictRun run = {task, *model, file, *answers};
  const absl::Status status = AnswerAll(run);
  if (absl::IsCancelled(status)) {
    LogInfo(absl::StrCat("stopped by ", StopSignal::Name(StopSignal::received()), " after ",
                         answers->size(), " of ", file.records.size(), " answers, which ", task.out,
                         ".partial keeps: the same command goes on"));
    return false;
  }
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(answers->Finish());
  PrintPredicted(run);
  return true;
}

}  // namespace

CommandOutcome Predict(const PredictTask& task) {
  const StopSignal signals;
  const absl::StatusOr<bool> whole = PredictFile(task);
  if (!whole.ok()) return {whole.status()};
  return {absl::OkStatus(), *whole ? 0 : 75};
}

}  // namespace spillway
