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

void AddTextFlags(CLI::App& command, const std::string& temperature, TextRequest& request,
                  TextFlags& flags) {
  const auto add = [&](const char* names, auto& value, const char* type, const std::string& help) {
    return command.add_option(names, value, help)->type_name(type);
  };
  add("--model", request.model, "DIR",
      "model directory, ORG/NAME in the hub's cache, or OUTPUT of a run (its last commit)")
      ->required();
  command.add_flag("--download", flags.download, kDownloadHelp);
  add("--adapter", request.adapter, "DIR", "LoRA adapter, a directory as PEFT writes it");
  add("--source-prefix", request.source_prefix, "TEXT",
      "models with an encoder: put before each prompt, as \"summarize: \"");
  add("--max-source-length", flags.max_source_length, "N",
      "models with an encoder: tokens in a prompt, at most; the end of a longer one is cut (1024)");
  add("--language", request.speech.language, "NAME",
      "speech models: the language spoken, as de or german (the model finds out)");
  add("--transcribe-task", request.speech_task, "transcribe|translate",
      "speech models: write in that language, or in English (transcribe)");
  command.add_flag("--timestamps", request.speech.timestamps,
                   "speech models: when each part begins and ends, too");
  add("--tokens,--max-tokens,--max_new_tokens", flags.tokens, "N", "tokens to add, at most (100)");
  add("--min-tokens", flags.min_tokens, "N", "tokens before the text may end (0)");
  add("--temperature", flags.temperature, "NUMBER", temperature);
  add("--top-k", flags.top_k, "N", "choose among the k likeliest tokens (50; 0: all)");
  add("--top-p", flags.top_p, "NUMBER",
      "choose among the likeliest tokens that have this probability together (1)");
  add("--repetition-penalty", flags.repetition_penalty, "NUMBER",
      "divides the scores of tokens that were there before (1: no penalty)");
  add("--no-repeat-ngram,--no_repeat_ngram_size", flags.no_repeat_ngram, "N",
      "the same N tokens in a row never come twice (0: they may)");
  add("--num-beams", flags.beams, "N",
      "beam search of this width (1: token by token; needs temperature 0)");
  add("--length-penalty", flags.length_penalty, "NUMBER",
      "with beams: above 0 prefers long texts, below 0 short ones (1)");
  add("--early-stopping", flags.early_stopping, "true|false|never",
      "with beams: whether to stop at as many finished texts as there are beams");
  add("--generation-config", request.generation_config, "none|FILE",
      "where defaults of these flags come from (the model's generation_config.json)");
  add("--seed", flags.seed, "N", "of the random choices (42)");
  command.add_flag("--ignore-end", request.ignore_end, "go on after the end-of-text token");
  add("--eos-token", request.ends, "TOKEN", "a token that ends the text, too; may be repeated")
      ->allow_extra_args(false);
  add("--stop", request.stops, "TEXT",
      "end the text before this one, which is not written; may be repeated")
      ->allow_extra_args(false);
  add("--tokenizer", request.tokenizer, "model|bytes|DIR", "how text becomes tokens (model)");
  add("--dtype", flags.dtype, "bf16|fp16|fp32", "precision of computing (the weights')");
  add("--compute", flags.compute, "auto|fp32|bf16",
      "precision of matrix products; auto: --dtype where the processor has instructions for it "
      "(auto)");
  add("--device", request.device, "auto|cpu|cuda",
      "where to compute; auto: on a GPU where there is one (auto)");
  add("--threads", flags.threads, "N", "compute threads (the cores)");
  add("--device-memory", flags.device_memory, "SIZE", "hard limit, as 1GiB (what is free)");
  add("--host-memory", flags.host_memory, "SIZE", "hard limit, as 1GiB (what is free)");
  add("--swap", flags.swap, "PATH[,PATH...]",
      "directories for weights or key-value caches that memory has no room for");
}

absl::Status ReadTextFlags(const TextFlags& flags, TextRequest& request) {
  using Text = TextFlags::Text;
  RETURN_IF_ERROR(ResolveGivenModel("--model", HubFiles::kWeights, flags.download, request.model));
  RETURN_IF_ERROR(
      ResolveGivenModel("--tokenizer", HubFiles::kTokenizer, flags.download, request.tokenizer));
  RETURN_IF_ERROR(
      ResolveGivenModel("--adapter", HubFiles::kAdapter, flags.download, request.adapter));
  SamplingFlags& sampling = request.sampling;
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
      {"--max-source-length", flags.max_source_length, 1, kMostTokens, request.max_source_length},
      {"--threads", flags.threads, 1, 4096, threads},
  };
  for (const auto& each : integers) {
    if (!each.text) continue;
    ASSIGN_OR_RETURN(each.value, IntegerFlag(each.flag, *each.text, each.low, each.high));
  }
  request.threads = static_cast<int>(threads.value_or(UsableCores()));
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
  if (!request.speech_task.empty()) {
    RETURN_IF_ERROR(ChoiceFlag<bool>("--transcribe-task", request.speech_task,
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
  for (const std::string& stop : request.stops) {
    if (stop.empty()) return BadFlagValue("--stop", stop, "a text");
  }
  RETURN_IF_ERROR(ParseDeviceWish(request.device).status());
  if (flags.dtype) {
    ASSIGN_OR_RETURN(request.dtype, ChoiceFlag<DType>("--dtype", *flags.dtype,
                                                      {{"bf16", DType::kBFloat16},
                                                       {"fp16", DType::kFloat16},
                                                       {"fp32", DType::kFloat32}}));
  }
  if (flags.compute) {
    ASSIGN_OR_RETURN(
        request.compute,
        ChoiceFlag<std::optional<DType>>(
            "--compute", *flags.compute,
            {{"auto", std::nullopt}, {"fp32", DType::kFloat32}, {"bf16", DType::kBFloat16}}));
  }
  if (flags.device_memory) {
    ASSIGN_OR_RETURN(request.device_memory_bytes,
                     SizeFlag("--device-memory", *flags.device_memory));
  }
  if (flags.host_memory) {
    ASSIGN_OR_RETURN(request.host_memory_bytes, SizeFlag("--host-memory", *flags.host_memory));
  }
  if (flags.swap) {
    ASSIGN_OR_RETURN(request.swap_paths, ListFlag("--swap", *flags.swap));
  }
  return absl::OkStatus();
}

}  // namespace spillway
