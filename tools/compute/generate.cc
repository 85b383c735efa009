// spillway generate, once its flags are checked: a sample from a model directory or a run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/data/load_tokenizer.h"
#include "engine/data/text_decoder.h"
#include "engine/data/tokenizer.h"
#include "engine/families/gpt2.h"
#include "engine/families/gpt2_weights.h"
#include "engine/machine/memory_limits.h"
#include "engine/run/committed_run.h"
#include "engine/run/committed_weights.h"
#include "engine/torch/generator.h"
#include "engine/torch/open_compute.h"
#include "engine/torch/sampling.h"
#include "engine/tuning/tuned_io.h"
#include "engine/weights/model_files.h"
#include "engine/weights/safetensors_model.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "tools/compute/commands.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// A model directory, or a run's last commit.
struct Opened {
  std::string files;  // the directory of config and tokenizer
  Gpt2Config config;
  Model model;
  DType dtype = DType::kFloat32;  // what the weights are kept in
  std::unique_ptr<SafetensorsModel> safetensors;
  std::unique_ptr<CommittedRun> run;
  std::unique_ptr<WeightSource> weights;
};

bool HasConfig(const std::string& directory) {
  std::error_code error;
  return fs::exists(directory + "/config.json", error);
}

absl::Status OpenRun(const std::string& output, Opened& opened) {
  auto run = OpenCommittedRun(output);
  if (absl::IsNotFound(run.status()) && HasConfig(output + "/model")) {
    opened.files = output + "/model";  // --no-commit leaves only this
    return absl::OkStatus();
  }
  if (absl::IsNotFound(run.status())) {
    return absl::NotFoundError(
        absl::StrCat("--model ", output,
                     " is neither a Hugging Face directory (there is no config.json) nor the "
                     "OUTPUT of a run with a commit"));
  }
  RETURN_IF_ERROR(run.status());
  RETURN_IF_ERROR(run->OpenOtherParts());
  if (!HasConfig(SourceDirectory(output))) {
    return absl::FailedPreconditionError(absl::StrCat(
        output, "/source/config.json is missing: that run was not made by spillway train"));
  }
  opened.files = SourceDirectory(output);
  opened.dtype = run->state.dtype;
  opened.run = std::make_unique<CommittedRun>(*std::move(run));
  LogInfo(absl::StrCat("the model after step ", opened.run->state.step, " of ", output));
  return absl::OkStatus();
}

absl::Status OpenModel(const std::string& directory, Opened& opened) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return absl::NotFoundError(absl::StrCat("--model ", directory, " is not a directory"));
  }
  opened.files = directory;
  if (!HasConfig(directory)) RETURN_IF_ERROR(OpenRun(directory, opened));
  ASSIGN_OR_RETURN(opened.config, ReadGpt2Config(opened.files));
  ASSIGN_OR_RETURN(opened.model, BuildGpt2(opened.config));
  if (opened.run) {
    opened.weights = NewCommittedWeights(opened.run.get());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(opened.safetensors, SafetensorsModel::Open(opened.files));
  ASSIGN_OR_RETURN(opened.weights, OpenGpt2Weights(opened.config, opened.safetensors.get()));
  opened.dtype = opened.safetensors->dtype();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> EncodePrompt(const GenerateTask& task,
                                                  const Tokenizer& tokenizer, int64_t vocabulary) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> tokens, tokenizer.Encode(task.prompt));
  for (const int64_t token : tokens) {
    if (token < vocabulary) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--prompt has token ", token, " and the model knows ", vocabulary,
                     ": the tokenizer (", std::string(tokenizer.kind()), ") is not the model's"));
  }
  return tokens;
}

GeneratorOptions OptionsOf(const GenerateTask& task, DType dtype) {
  GeneratorOptions options;
  options.dtype = task.dtype.value_or(dtype);
  options.device_memory_bytes = task.device_memory_bytes;
  options.host_memory_bytes = task.host_memory_bytes;
  options.swap_paths = task.swap_paths;
  if (const auto tuned = FindTuning(options.swap_paths)) ApplyTuning(*tuned, {}, &options.io);
  options.threads = task.threads;
  options.new_tokens = task.tokens;
  return options;
}

struct Sample {
  std::vector<int64_t> tokens;  // new ones
  std::string text;             // of them
  double prompt_seconds = 0;    // from the prompt to the first token
  double seconds = 0;           // all of it
  bool ended = false;           // by the end-of-text token
};

absl::StatusOr<Sample> Continue(const GenerateTask& task, const Tokenizer& tokenizer,
                                const std::vector<int64_t>& prompt, Generator& generator) {
  const auto start = std::chrono::steady_clock::now();
  const auto since = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Sample sample;
  const auto show = [&](const std::string& text) {
    sample.text += text;
    if (task.as_json) return;
    std::printf("%s", text.c_str());
    std::fflush(stdout);
  };
  TextDecoder decoder(&tokenizer);
  const std::optional<uint32_t> end = tokenizer.end_of_text();
  std::vector<int64_t> next = prompt;
  for (int64_t i = 0; i < task.tokens; ++i) {
    ASSIGN_OR_RETURN(torch::Tensor logits, generator.Append(next));
    // A vocabulary may be padded beyond what the tokenizer knows.
    logits = logits.narrow(0, 0, std::min(logits.numel(), tokenizer.vocabulary_size()));
    if (!logits.isfinite().all().item<bool>()) {
      return absl::OutOfRangeError(
          "the model's logits are not finite: its weights are broken, or too large for this "
          "--dtype (try fp32)");
    }
    const int64_t token = SampleToken(logits, task.sampling, i);
    if (i == 0) sample.prompt_seconds = since();
    next = {token};
    sample.tokens.push_back(token);
    sample.ended = !task.ignore_end && token == end;
    if (sample.ended) break;
    ASSIGN_OR_RETURN(const std::string text, decoder.Next(token));
    show(text);
  }
  show(decoder.Finish());
  sample.seconds = since();
  return sample;
}

}  // namespace

absl::Status Generate(const GenerateTask& task) {
  Opened opened;
  RETURN_IF_ERROR(OpenModel(task.model, opened));
  GeneratorOptions options = OptionsOf(task, opened.dtype);
  ASSIGN_OR_RETURN(const DeviceChoice choice,
                   ChooseComputeDevice(task.device, options.dtype, options.device_memory_bytes));
  if (task.device == "auto") LogInfo(choice.Sentence());
  ChooseBudgets(choice, &options.device_memory_bytes, &options.host_memory_bytes);
  ASSIGN_OR_RETURN(
      const auto tokenizer,
      MakeTokenizer(task.tokenizer.empty() ? "model" : task.tokenizer, opened.files, {}));
  ASSIGN_OR_RETURN(const std::vector<int64_t> prompt,
                   EncodePrompt(task, *tokenizer, opened.config.vocab_size));
  options.positions = opened.config.n_positions;
  options.prompt_tokens = static_cast<int64_t>(prompt.size());
  ASSIGN_OR_RETURN(const std::unique_ptr<OpenedPlace> compute, OpenCompute(choice));
  options.place = compute->place;
  ASSIGN_OR_RETURN(const auto generator,
                   Generator::Create(opened.model, opened.weights.get(), options));
  if (!task.as_json) std::printf("%s", task.prompt.c_str());
  const auto sample = Continue(task, *tokenizer, prompt, *generator);
  if (!task.as_json) {
    std::printf("\n");
    std::fflush(stdout);  // before what stderr says of it
  }
  RETURN_IF_ERROR(sample.status());

  const double later = static_cast<double>(sample->tokens.size()) - 1;
  const double rate = later > 0 ? later / (sample->seconds - sample->prompt_seconds) : 0;
  const uint64_t read = generator->stats().io.read_bytes;
  if (task.as_json) {
    const nlohmann::json json = {
        {"prompt", task.prompt},     {"prompt_tokens", prompt},
        {"text", sample->text},      {"tokens", sample->tokens},
        {"ended", sample->ended},    {"prompt_seconds", sample->prompt_seconds},
        {"tokens_per_second", rate}, {"key_value_cache_bytes", generator->kept_bytes()},
        {"nvme_read_bytes", read},   {"peak_rss_bytes", PeakResidentBytes()}};
    std::printf("%s\n",
                json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return absl::OkStatus();
  }
  std::string summary =
      absl::StrFormat("%d tokens%s, the first after %.2f s", sample->tokens.size(),
                      sample->ended ? " to the end of the text" : "", sample->prompt_seconds);
  if (later > 0) absl::StrAppendFormat(&summary, ", then %.1f a second", rate);
  if (read > 0) absl::StrAppend(&summary, "; ", FormatBytes(read), " read from NVMe");
  LogInfo(absl::StrCat(summary, "; ", FormatBytes(PeakResidentBytes()), " resident at the peak"));
  return absl::OkStatus();
}

}  // namespace spillway
