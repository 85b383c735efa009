#include "tools/text_flags.h"

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/flag_value.h"
#include "engine/machine/core_limits.h"
#include "io/base/status.h"
#include "tools/given_model.h"

namespace spillway {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 31, kMostBeams = 1000;

}  // namespace

void AddTextFlags(CLI::App& command, const std::string& temperature, TextTask& task,
                  TextFlags& flags) {
  command
      .add_option(
          "--model", task.model,
          "model directory, ORG/NAME in the hub's cache, or OUTPUT of a run (its last commit)")
      ->required();
  command.add_flag("--download", flags.download, kDownloadHelp);
  command.add_option("--adapter", task.adapter, "directory of a LoRA adapter, as PEFT writes it");
  command.add_option("--source-prefix", task.source_prefix,
                     "of a model with an encoder: goes before each prompt, as \"summarize: \"");
  command.add_option("--max-source-length", flags.max_source_length,
                     "... and the most tokens of a prompt, which loses its end (1024)");
  command.add_option("--language", task.speech.language,
                     "of a model that hears: what is spoken, as de or german (it listens)");
  command.add_option("--transcribe-task", task.speech_task,
                     "... transcribe (default), or translate into English");
  command.add_flag("--timestamps", task.speech.timestamps,
                   "... and when what is said begins and ends");
  command.add_option("--tokens,--max-tokens,--max_new_tokens", flags.tokens,
                     "tokens to add, at most (100)");
  command.add_option("--min-tokens", flags.min_tokens, "tokens before the text may end (0)");
  command.add_option("--temperature", flags.temperature, temperature);
  command.add_option("--top-k", flags.top_k, "of the k likeliest tokens (50; 0: all)");
  command.add_option("--top-p", flags.top_p, "of the likeliest with this much chance together (1)");
  command.add_option("--repetition-penalty", flags.repetition_penalty,
                     "divides the scores of tokens that were there (1: it does not)");
  command.add_option("--no-repeat-ngram,--no_repeat_ngram_size", flags.no_repeat_ngram,
                     "so many tokens in a row never come twice (0: they may)");
  command.add_option("--num-beams", flags.beams,
                     "look for the likeliest whole text among so many at a time (1: token by "
                     "token; at temperature 0)");
  command.add_option("--length-penalty", flags.length_penalty,
                     "with beams: above 0 long texts are liked better, below 0 short ones (1)");
  command.add_option("--early-stopping", flags.early_stopping,
                     "with beams: true (as many texts as beams are enough), false, or never");
  command.add_option("--generation-config", task.generation_config,
                     "where these come from if not given: a file (the model's "
                     "generation_config.json), or none");
  command.add_option("--seed", flags.seed, "42");
  command.add_flag("--ignore-end", task.ignore_end, "go on after the end-of-text token");
  command.add_option("--tokenizer", task.tokenizer, "model, bytes, or a directory");
  command.add_option("--dtype", flags.dtype, "bf16, fp16 or fp32 (the weights')");
  command.add_option("--compute", flags.compute,
                     "in which matrices are multiplied: auto, fp32 or bf16");
  command.add_option("--device", task.device, "auto (a GPU where there is one), cpu or cuda");
  command.add_option("--threads", flags.threads, "compute threads (the cores)");
  command.add_option("--device-memory", flags.device_memory, "hard budget, e.g. 1GiB");
  command.add_option("--host-memory", flags.host_memory, "hard budget, e.g. 1GiB");
  command.add_option("--swap", flags.swap,
                     "parents for swap files where weights or key-value caches do not fit");
}

absl::Status ReadTextFlags(const TextFlags& flags, TextTask& task) {
  using Text = TextFlags::Text;
  RETURN_IF_ERROR(ResolveGivenModel("--model", HubFiles::kWeights, flags.download, task.model));
  RETURN_IF_ERROR(
      ResolveGivenModel("--tokenizer", HubFiles::kTokenizer, flags.download, task.tokenizer));
  RETURN_IF_ERROR(ResolveGivenModel("--adapter", HubFiles::kAdapter, flags.download, task.adapter));
  SamplingFlags& sampling = task.sampling;
  std::optional<int64_t> threads;
  const struct {
    const char* flag;
    const Text& text;
    int64_t low, high;
    std::optional<int64_t>& value;
  } integers[] = {
      {"--tokens", flags.tokens, 1, kMostTokens, sampling.tokens},
      {"--min-tokens", flags.min_tokens, 0, kMostTokens, sampling.min_tokens},
      {"--top-k", flags.top_k, 0, kMostTokens, sampling.top_k},
      {"--no-repeat-ngram", flags.no_repeat_ngram, 0, kMostTokens, sampling.no_repeat_ngram},
      {"--num-beams", flags.beams, 1, kMostBeams, sampling.beams},
      {"--max-source-length", flags.max_source_length, 1, kMostTokens, task.max_source_length},
      {"--threads", flags.threads, 1, 4096, threads},
  };
  for (const auto& each : integers) {
    if (!each.text) continue;
    ASSIGN_OR_RETURN(each.value, IntegerFlag(each.flag, *each.text, each.low, each.high));
  }
  task.threads = static_cast<int>(threads.value_or(UsableCores()));
  const struct {
    const char* flag;
    const Text& text;
    double low, high;
    std::optional<double>& value;
  } numbers[] = {
      {"--temperature", flags.temperature, 0, 1e6, sampling.temperature},
      {"--top-p", flags.top_p, 0, 1, sampling.top_p},
      {"--repetition-penalty", flags.repetition_penalty, 1e-6, 1e6, sampling.repetition_penalty},
      {"--length-penalty", flags.length_penalty, -100, 100, sampling.length_penalty},
  };
  for (const auto& each : numbers) {
    if (!each.text) continue;
    ASSIGN_OR_RETURN(each.value, NumberFlag(each.flag, *each.text, each.low, each.high));
  }
  if (sampling.top_p == 0)
    return BadFlagValue("--top-p", *flags.top_p, "a number above 0, up to 1");
  if (flags.seed) {
    ASSIGN_OR_RETURN(sampling.seed, SeedFlag("--seed", *flags.seed));
  }
  if (!task.speech_task.empty()) {
    RETURN_IF_ERROR(ChoiceFlag<bool>("--transcribe-task", task.speech_task,
                                     {{"transcribe", false}, {"translate", true}})
                        .status());
  }
  if (flags.early_stopping) {
    ASSIGN_OR_RETURN(sampling.early_stopping,
                     ChoiceFlag<EarlyStopping>("--early-stopping", *flags.early_stopping,
                                               {{"true", EarlyStopping::kYes},
                                                {"false", EarlyStopping::kNo},
                                                {"never", EarlyStopping::kNever}}));
  }
  RETURN_IF_ERROR(ParseDeviceWish(task.device).status());
  if (flags.dtype) {
    ASSIGN_OR_RETURN(task.dtype, ChoiceFlag<DType>("--dtype", *flags.dtype,
                                                   {{"bf16", DType::kBFloat16},
                                                    {"fp16", DType::kFloat16},
                                                    {"fp32", DType::kFloat32}}));
  }
  if (flags.compute) {
    ASSIGN_OR_RETURN(task.compute, ChoiceFlag<std::optional<DType>>("--compute", *flags.compute,
                                                                    {{"auto", std::nullopt},
                                                                     {"fp32", DType::kFloat32},
                                                                     {"bf16", DType::kBFloat16}}));
  }
  if (flags.device_memory) {
    ASSIGN_OR_RETURN(task.device_memory_bytes, SizeFlag("--device-memory", *flags.device_memory));
  }
  if (flags.host_memory) {
    ASSIGN_OR_RETURN(task.host_memory_bytes, SizeFlag("--host-memory", *flags.host_memory));
  }
  if (flags.swap) {
    ASSIGN_OR_RETURN(task.swap_paths, ListFlag("--swap", *flags.swap));
  }
  return absl::OkStatus();
}

}  // namespace spillway
