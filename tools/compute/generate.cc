// spillway generate, once its flags are checked: one text, shown as it comes.
#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/print_json.h"
#include "engine/machine/memory_limits.h"
#include "engine/run/last_commit.h"
#include "engine/tasks/continue_texts.h"
#include "engine/tasks/speech_prompts.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "tools/compute/compute_commands.h"

namespace spillway {
namespace {

constexpr double kTemperature = 0.8;

struct Sample {
  Continuation made;
  double prompt_seconds = 0;  // from the prompt to the first token
  double seconds = 0;         // all of it
};

// What reads the model, before anything is shown.
struct Started {
  std::unique_ptr<TextModel> model;
  std::vector<Prompt> prompts;  // of a sound its windows
};

absl::StatusOr<Started> Start(const GenerateRequest& request) {
  ASSIGN_OR_RETURN(std::unique_ptr<TextModel> model, OpenTextModel(request, kTemperature));
  ASSIGN_OR_RETURN(std::vector<Prompt> prompts, model->task->PromptsOf(request, *model));
  return Started{std::move(model), std::move(prompts)};
}

// What a sound says, window after window.
absl::Status GenerateFromSound(const GenerateRequest& request, const Started& started) {
  TextModel& model = *started.model;
  const std::vector<Prompt>& prompts = started.prompts;
  std::vector<WindowMade> made;
  const bool shows = !request.as_json && !model.speech.timestamps;
  ContinueHooks hooks;
  hooks.on_text = [&](size_t, const std::string& text) {
    if (!shows) return;
    std::printf("%s", text.c_str());
    std::fflush(stdout);
  };
  hooks.on_end = [&](size_t window, const Continuation& whole) {
    made.emplace_back(prompts[window], whole);
    return absl::OkStatus();
  };
  const absl::Status status = ContinueTexts(model, prompts, /*rows=*/1, hooks);
  if (shows) std::printf("\n");
  std::fflush(stdout);
  RETURN_IF_ERROR(status);
  ASSIGN_OR_RETURN(const nlohmann::ordered_json row, RowOfSound(model, made));
  if (request.as_json) {
    nlohmann::ordered_json json = {{"audio", request.audio}};
    json.update(row);
    json["peak_rss_bytes"] = PeakResidentBytes();
    PrintJson(json);
    return absl::OkStatus();
  }
  if (row.contains("segments")) {
    for (const auto& segment : row["segments"]) {
      std::printf("[%7.2f s to %7.2f s] %s\n", segment["start"].get<double>(),
                  segment["end"].get<double>(), segment["text"].get<std::string>().c_str());
    }
  }
  std::string summary = absl::StrCat(row["tokens"].get<size_t>(), " tokens of ", prompts.size(),
                                     prompts.size() == 1 ? " window" : " windows");
  if (row.contains("language")) {
    absl::StrAppend(&summary, "; the language is ", row["language"].get<std::string>());
  }
  LogInfo(absl::StrCat(summary, "; ", FormatBytes(PeakResidentBytes()), " resident at the peak"));
  return absl::OkStatus();
}

absl::StatusOr<Sample> ContinueOne(const GenerateRequest& request, const Prompt& prompt,
                                   TextModel& model) {
  const auto start = std::chrono::steady_clock::now();
  const auto since = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Sample sample;
  ContinueHooks hooks;
  hooks.on_text = [&](size_t, const std::string& text) {
    if (request.as_json) return;
    std::printf("%s", text.c_str());
    std::fflush(stdout);
  };
  hooks.on_end = [&](size_t, const Continuation& whole) {
    sample.made = whole;
    return absl::OkStatus();
  };
  hooks.after_tokens = [&] {
    if (sample.prompt_seconds == 0) sample.prompt_seconds = since();
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ContinueTexts(model, {prompt}, /*rows=*/1, hooks));
  sample.seconds = since();
  return sample;
}

}  // namespace

absl::Status Generate(const GenerateRequest& request) {
  Started started;
  RETURN_IF_ERROR(ReadLastCommit(request.model, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(started, Start(request));
    return absl::OkStatus();
  }));
  if (!request.audio.empty()) return GenerateFromSound(request, started);
  TextModel* const model = started.model.get();
  const Prompt* const prompt = &started.prompts.front();
  const bool goes_on = model->sources == nullptr && !request.chat;
  if (!request.as_json && goes_on) std::printf("%s", request.prompt.c_str());
  const auto sample = ContinueOne(request, *prompt, *model);
  if (!request.as_json) {
    std::printf("\n");
    std::fflush(stdout);  // before what stderr says of it
  }
  RETURN_IF_ERROR(sample.status());

  const Continuation& made = sample->made;
  const double later = static_cast<double>(made.tokens.size()) - 1;
  const double rate = later > 0 ? later / (sample->seconds - sample->prompt_seconds) : 0;
  const Generator& generator = *model->generator;
  const uint64_t read = generator.stats().io.read_bytes + generator.kept_io().read_bytes;
  if (request.as_json) {
    PrintJson(nlohmann::json{{"prompt", request.prompt},
                             {"prompt_tokens", model->sources ? prompt->source : prompt->tokens},
                             {"text", made.text},
                             {"tokens", made.tokens},
                             {"ended", made.ended},
                             {"stopped", made.stopped},
                             {"prompt_seconds", sample->prompt_seconds},
                             {"tokens_per_second", rate},
                             {"key_value_cache_bytes", generator.kept_bytes()},
                             {"key_value_cache_tier", std::string(TierName(generator.kept_tier()))},
                             {"nvme_read_bytes", read},
                             {"peak_rss_bytes", PeakResidentBytes()}});
    return absl::OkStatus();
  }
  std::string summary = absl::StrFormat("%d tokens%s, the first after %.2f s", made.tokens.size(),
                                        made.ended     ? " to the end of the text"
                                        : made.stopped ? " to --stop"
                                                       : "",
                                        sample->prompt_seconds);
  if (later > 0) absl::StrAppendFormat(&summary, ", then %.1f a second", rate);
  if (read > 0) absl::StrAppend(&summary, "; ", FormatBytes(read), " read from NVMe");
  LogInfo(absl::StrCat(summary, "; ", FormatBytes(PeakResidentBytes()), " resident at the peak"));
  return absl::OkStatus();
}

}  // namespace spillway
