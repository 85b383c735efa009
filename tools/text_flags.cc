#include "tools/text_flags.h"

#include <algorithm>
#include <map>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/size.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr int64_t kMostBeams = 1000;

// Neither more nor less, and no number that is none.
bool IsBetween(double value, double least, double most) { return value >= least && value <= most; }

}  // namespace

void AddTextFlags(CLI::App& command, const std::string& temperature, TextTask& task,
                  TextFlags& flags) {
  task.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  SamplingFlags& sampling = task.sampling;
  command
      .add_option("--model", task.model, "model directory, or OUTPUT of a run (its last commit)")
      ->required();
  command.add_option("--adapter", task.adapter, "directory of a LoRA adapter, as PEFT writes it");
  command.add_option("--source-prefix", task.source_prefix,
                     "of a model with an encoder: goes before each prompt, as \"summarize: \"");
  command.add_option("--max-source-length", task.max_source_length,
                     "... and the most tokens of a prompt, which loses its end (1024)");
  command.add_option("--language", task.speech.language,
                     "of a model that hears: what is spoken, as de or german (it listens)");
  command.add_option("--transcribe-task", task.speech_task,
                     "... transcribe (default), or translate into English");
  command.add_flag("--timestamps", task.speech.timestamps,
                   "... and when what is said begins and ends");
  command.add_option("--tokens", sampling.tokens, "tokens to add, at most (100)");
  command.add_option("--min-tokens", sampling.min_tokens, "tokens before the text may end (0)");
  command.add_option("--temperature", sampling.temperature, temperature);
  command.add_option("--top-k", sampling.top_k, "of the k likeliest tokens (50; 0: all)");
  command.add_option("--top-p", sampling.top_p,
                     "of the likeliest with this much chance together (1)");
  command.add_option("--repetition-penalty", sampling.repetition_penalty,
                     "divides the scores of tokens that were there (1: it does not)");
  command.add_option("--no-repeat-ngram", sampling.no_repeat_ngram,
                     "so many tokens in a row never come twice (0: they may)");
  command.add_option("--num-beams", sampling.beams,
                     "look for the likeliest whole text among so many at a time (1: token by "
                     "token; at temperature 0)");
  command.add_option("--length-penalty", sampling.length_penalty,
                     "with beams: above 0 long texts are liked better, below 0 short ones (1)");
  command.add_option("--early-stopping", flags.early_stopping,
                     "with beams: true (as many texts as beams are enough), false, or never");
  command.add_option("--generation-config", task.generation_config,
                     "where these come from if not given: a file (the model's "
                     "generation_config.json), or none");
  command.add_option("--seed", sampling.seed, "42");
  command.add_flag("--ignore-end", task.ignore_end, "go on after the end-of-text token");
  command.add_option("--tokenizer", task.tokenizer, "model, bytes, or a directory");
  command.add_option("--dtype", flags.dtype, "bf16, fp16 or fp32 (the weights')");
  command.add_option("--compute", flags.compute,
                     "in which matrices are multiplied: auto, fp32 or bf16");
  command.add_option("--device", task.device, "auto (a GPU where there is one), cpu or cuda");
  command.add_option("--threads", task.threads, "compute threads (the cores)");
  command.add_option("--device-memory", flags.device_memory, "hard budget, e.g. 1GiB");
  command.add_option("--host-memory", flags.host_memory, "hard budget, e.g. 1GiB");
  command.add_option("--swap", flags.swap,
                     "parents for swap files where weights or key-value caches do not fit");
}

absl::Status ReadTextFlags(const TextFlags& flags, TextTask& task) {
  const SamplingFlags& sampling = task.sampling;
  const auto refuse = [](const std::string& text) { return absl::InvalidArgumentError(text); };
  if (sampling.tokens.value_or(1) < 1) {
    return refuse(absl::StrCat("--tokens ", *sampling.tokens, " is not positive"));
  }
  if (task.threads < 1) return refuse("--threads must be positive");
  if (!IsBetween(sampling.temperature.value_or(0), 0, 1e6)) {
    return refuse("--temperature must not be negative, and at most a million");
  }
  if (!IsBetween(sampling.length_penalty.value_or(1), -100, 100)) {
    return refuse("--length-penalty must be from -100 to 100");
  }
  if (sampling.top_k.value_or(0) < 0) return refuse("--top-k must not be negative; 0 means all");
  const double top_p = sampling.top_p.value_or(1);
  if (!(top_p > 0 && top_p <= 1)) return refuse("--top-p must be above 0 and at most 1");
  if (!IsBetween(sampling.repetition_penalty.value_or(1), 1e-6, 1e6)) {
    return refuse("--repetition-penalty must be above 0, and at most a million; 1 means none");
  }
  if (sampling.no_repeat_ngram.value_or(0) < 0) {
    return refuse("--no-repeat-ngram must not be negative; 0 means none");
  }
  if (sampling.min_tokens.value_or(0) < 0) return refuse("--min-tokens must not be negative");
  if (!task.speech_task.empty() && task.speech_task != "transcribe" &&
      task.speech_task != "translate") {
    return refuse(absl::StrCat("--transcribe-task ", task.speech_task,
                               " is unknown: transcribe or translate"));
  }
  if (task.max_source_length.value_or(1) < 1) return refuse("--max-source-length must be positive");
  const int64_t beams = sampling.beams.value_or(1);
  if (beams < 1 || beams > kMostBeams) {
    return refuse(absl::StrCat("--num-beams ", beams, " is not from 1 to ", kMostBeams));
  }
  if (!flags.early_stopping.empty()) {
    const std::map<std::string, EarlyStopping> known = {{"false", EarlyStopping::kNo},
                                                        {"true", EarlyStopping::kYes},
                                                        {"never", EarlyStopping::kNever}};
    const auto found = known.find(flags.early_stopping);
    if (found == known.end()) {
      return refuse(absl::StrCat("--early-stopping ", flags.early_stopping,
                                 " is unknown: true, false or never"));
    }
    task.sampling.early_stopping = found->second;
  }
  RETURN_IF_ERROR(ParseDeviceWish(task.device).status());
  if (!flags.dtype.empty()) {
    task.dtype = DTypeFromName(flags.dtype);
    if (!task.dtype) {
      return refuse(absl::StrCat("--dtype ", flags.dtype, " is unknown: bf16, fp16 or fp32"));
    }
  }
  if (!flags.compute.empty() && flags.compute != "auto") {
    task.compute = DTypeFromName(flags.compute);
    if (!task.compute) {
      return refuse(absl::StrCat("--compute ", flags.compute, " is unknown: auto, fp32 or bf16"));
    }
  }
  if (!flags.device_memory.empty()) {
    ASSIGN_OR_RETURN(task.device_memory_bytes, ParseSize(flags.device_memory));
  }
  if (!flags.host_memory.empty()) {
    ASSIGN_OR_RETURN(task.host_memory_bytes, ParseSize(flags.host_memory));
  }
  if (!flags.swap.empty()) task.swap_paths = absl::StrSplit(flags.swap, ',');
  return absl::OkStatus();
}

}  // namespace spillway
