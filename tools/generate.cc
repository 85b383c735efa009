// spillway generate: a sample from a model directory or a run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "engine/base/size.h"
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
#include "tools/commands.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

struct GenerateFlags {
  std::string model, prompt, tokenizer, dtype, device = "auto", device_memory, host_memory, swap;
  int64_t tokens = 100;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  SamplingOptions sampling;
  bool ignore_end = false, json = false;
};

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

absl::Status CheckFlags(const GenerateFlags& flags) {
  const auto refuse = [](const std::string& text) { return absl::InvalidArgumentError(text); };
  if (flags.prompt.empty()) return refuse("--prompt must not be empty");
  if (flags.tokens < 1) return refuse(absl::StrCat("--tokens ", flags.tokens, " is not positive"));
  if (flags.threads < 1) return refuse("--threads must be positive");
  if (!(flags.sampling.temperature >= 0)) return refuse("--temperature must not be negative");
  if (flags.sampling.top_k < 0) return refuse("--top-k must not be negative; 0 means all");
  if (!(flags.sampling.top_p > 0 && flags.sampling.top_p <= 1)) {
    return refuse("--top-p must be above 0 and at most 1");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> EncodePrompt(const GenerateFlags& flags,
                                                  const Tokenizer& tokenizer, int64_t vocabulary) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> tokens, tokenizer.Encode(flags.prompt));
  for (const int64_t token : tokens) {
    if (token < vocabulary) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--prompt has token ", token, " and the model knows ", vocabulary,
                     ": the tokenizer (", std::string(tokenizer.kind()), ") is not the model's"));
  }
  return tokens;
}

absl::StatusOr<GeneratorOptions> OptionsOf(const GenerateFlags& flags, DType dtype) {
  GeneratorOptions options;
  options.dtype = dtype;
  if (!flags.dtype.empty()) {
    const auto named = DTypeFromName(flags.dtype);
    if (!named) {
      return absl::InvalidArgumentError(
          absl::StrCat("--dtype ", flags.dtype, " is unknown: bf16, fp16 or fp32"));
    }
    options.dtype = *named;
  }
  options.device_memory_bytes = options.host_memory_bytes = 0;
  if (!flags.device_memory.empty()) {
    ASSIGN_OR_RETURN(options.device_memory_bytes, ParseSize(flags.device_memory));
  }
  if (!flags.host_memory.empty()) {
    ASSIGN_OR_RETURN(options.host_memory_bytes, ParseSize(flags.host_memory));
  }
  if (!flags.swap.empty()) options.swap_paths = absl::StrSplit(flags.swap, ',');
  if (const auto tuned = FindTuning(options.swap_paths)) ApplyTuning(*tuned, {}, &options.io);
  options.threads = flags.threads;
  options.new_tokens = flags.tokens;
  return options;
}

struct Sample {
  std::vector<int64_t> tokens;  // new ones
  std::string text;             // of them
  double prompt_seconds = 0;    // from the prompt to the first token
  double seconds = 0;           // all of it
  bool ended = false;           // by the end-of-text token
};

absl::StatusOr<Sample> Continue(const GenerateFlags& flags, const Tokenizer& tokenizer,
                                const std::vector<int64_t>& prompt, Generator& generator) {
  const auto start = std::chrono::steady_clock::now();
  const auto since = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Sample sample;
  const auto show = [&](const std::string& text) {
    sample.text += text;
    if (flags.json) return;
    std::printf("%s", text.c_str());
    std::fflush(stdout);
  };
  TextDecoder decoder(&tokenizer);
  const std::optional<uint32_t> end = tokenizer.end_of_text();
  std::vector<int64_t> next = prompt;
  for (int64_t i = 0; i < flags.tokens; ++i) {
    ASSIGN_OR_RETURN(torch::Tensor logits, generator.Append(next));
    // A vocabulary may be padded beyond what the tokenizer knows.
    logits = logits.narrow(0, 0, std::min(logits.numel(), tokenizer.vocabulary_size()));
    if (!logits.isfinite().all().item<bool>()) {
      return absl::OutOfRangeError(
          "the model's logits are not finite: its weights are broken, or too large for this "
          "--dtype (try fp32)");
    }
    const int64_t token = SampleToken(logits, flags.sampling, i);
    if (i == 0) sample.prompt_seconds = since();
    next = {token};
    sample.tokens.push_back(token);
    sample.ended = !flags.ignore_end && token == end;
    if (sample.ended) break;
    ASSIGN_OR_RETURN(const std::string text, decoder.Next(token));
    show(text);
  }
  show(decoder.Finish());
  sample.seconds = since();
  return sample;
}

absl::Status Generate(const GenerateFlags& flags) {
  RETURN_IF_ERROR(CheckFlags(flags));
  Opened opened;
  RETURN_IF_ERROR(OpenModel(flags.model, opened));
  ASSIGN_OR_RETURN(GeneratorOptions options, OptionsOf(flags, opened.dtype));
  ASSIGN_OR_RETURN(const DeviceChoice choice,
                   ChooseComputeDevice(flags.device, options.dtype, options.device_memory_bytes));
  if (flags.device == "auto") LogInfo(choice.Sentence());
  ChooseBudgets(choice, &options.device_memory_bytes, &options.host_memory_bytes);
  ASSIGN_OR_RETURN(
      const auto tokenizer,
      MakeTokenizer(flags.tokenizer.empty() ? "model" : flags.tokenizer, opened.files, {}));
  ASSIGN_OR_RETURN(const std::vector<int64_t> prompt,
                   EncodePrompt(flags, *tokenizer, opened.config.vocab_size));
  options.positions = opened.config.n_positions;
  options.prompt_tokens = static_cast<int64_t>(prompt.size());
  ASSIGN_OR_RETURN(const std::unique_ptr<OpenedPlace> compute, OpenCompute(choice));
  options.place = compute->place;
  ASSIGN_OR_RETURN(const auto generator,
                   Generator::Create(opened.model, opened.weights.get(), options));
  if (!flags.json) std::printf("%s", flags.prompt.c_str());
  const auto sample = Continue(flags, *tokenizer, prompt, *generator);
  if (!flags.json) {
    std::printf("\n");
    std::fflush(stdout);  // before what stderr says of it
  }
  RETURN_IF_ERROR(sample.status());

  const double later = static_cast<double>(sample->tokens.size()) - 1;
  const double rate = later > 0 ? later / (sample->seconds - sample->prompt_seconds) : 0;
  const uint64_t read = generator->stats().io.read_bytes;
  if (flags.json) {
    const nlohmann::json json = {
        {"prompt", flags.prompt},    {"prompt_tokens", prompt},
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

}  // namespace

void AddGenerateCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a model or a run");
  auto flags = std::make_shared<GenerateFlags>();
  command
      ->add_option("--model", flags->model, "model directory, or OUTPUT of a run (its last commit)")
      ->required();
  command->add_option("--prompt", flags->prompt, "text to continue")->required();
  command->add_option("--tokens", flags->tokens, "tokens to add, at most (100)");
  command->add_option("--temperature", flags->sampling.temperature, "0.8; 0: the likeliest token");
  command->add_option("--top-k", flags->sampling.top_k, "of the k likeliest tokens (50; 0: all)");
  command->add_option("--top-p", flags->sampling.top_p,
                      "of the likeliest with this much chance together (1)");
  command->add_option("--seed", flags->sampling.seed, "42");
  command->add_flag("--ignore-end", flags->ignore_end, "go on after the end-of-text token");
  command->add_option("--tokenizer", flags->tokenizer, "model, bytes, or a directory");
  command->add_option("--dtype", flags->dtype, "bf16, fp16 or fp32 (the weights')");
  command->add_option("--device", flags->device, "auto (a GPU where there is one), cpu or cuda");
  command->add_option("--threads", flags->threads, "compute threads (the cores)");
  command->add_option("--device-memory", flags->device_memory, "hard budget, e.g. 1GiB");
  command->add_option("--host-memory", flags->host_memory, "hard budget, e.g. 1GiB");
  command->add_option("--swap", flags->swap, "parents for swap files where weights do not fit");
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  command->footer(
      "The text goes to stdout, all else to stderr.\n"
      "Example:\n  spillway generate --model run/model --prompt 'And God said' --tokens 200");
  command->callback(
      [run, flags] { *run = [flags]() -> CommandOutcome { return {Generate(*flags)}; }; });
}

}  // namespace spillway
