// spillway generate: its flags; tools/compute/generate.cc samples.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/size.h"
#include "io/base/status.h"
#include "tools/commands.h"
#include "tools/compute_library.h"

namespace spillway {
namespace {

// The task, and what of it is still text.
struct GenerateFlags {
  GenerateTask task;
  std::string dtype, device_memory, host_memory, swap;
};

absl::StatusOr<GenerateTask> ReadGenerateTask(const GenerateFlags& flags) {
  GenerateTask task = flags.task;
  const auto refuse = [](const std::string& text) { return absl::InvalidArgumentError(text); };
  if (task.prompt.empty()) return refuse("--prompt must not be empty");
  if (task.tokens < 1) return refuse(absl::StrCat("--tokens ", task.tokens, " is not positive"));
  if (task.threads < 1) return refuse("--threads must be positive");
  if (!(task.sampling.temperature >= 0)) return refuse("--temperature must not be negative");
  if (task.sampling.top_k < 0) return refuse("--top-k must not be negative; 0 means all");
  if (!(task.sampling.top_p > 0 && task.sampling.top_p <= 1)) {
    return refuse("--top-p must be above 0 and at most 1");
  }
  RETURN_IF_ERROR(ParseDeviceWish(task.device).status());
  if (!flags.dtype.empty()) {
    task.dtype = DTypeFromName(flags.dtype);
    if (!task.dtype) {
      return refuse(absl::StrCat("--dtype ", flags.dtype, " is unknown: bf16, fp16 or fp32"));
    }
  }
  if (!flags.device_memory.empty()) {
    ASSIGN_OR_RETURN(task.device_memory_bytes, ParseSize(flags.device_memory));
  }
  if (!flags.host_memory.empty()) {
    ASSIGN_OR_RETURN(task.host_memory_bytes, ParseSize(flags.host_memory));
  }
  if (!flags.swap.empty()) task.swap_paths = absl::StrSplit(flags.swap, ',');
  return task;
}

absl::Status Generate(const GenerateFlags& flags) {
  ASSIGN_OR_RETURN(const GenerateTask task, ReadGenerateTask(flags));
  ASSIGN_OR_RETURN(ComputeLibrary* const compute, OpenComputeLibrary());
  return compute->Generate(task);
}

}  // namespace

void AddGenerateCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a model or a run");
  auto flags = std::make_shared<GenerateFlags>();
  GenerateTask& task = flags->task;
  task.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  command
      ->add_option("--model", task.model, "model directory, or OUTPUT of a run (its last commit)")
      ->required();
  command->add_option("--prompt", task.prompt, "text to continue")->required();
  command->add_option("--tokens", task.tokens, "tokens to add, at most (100)");
  command->add_option("--temperature", task.sampling.temperature, "0.8; 0: the likeliest token");
  command->add_option("--top-k", task.sampling.top_k, "of the k likeliest tokens (50; 0: all)");
  command->add_option("--top-p", task.sampling.top_p,
                      "of the likeliest with this much chance together (1)");
  command->add_option("--seed", task.sampling.seed, "42");
  command->add_flag("--ignore-end", task.ignore_end, "go on after the end-of-text token");
  command->add_option("--tokenizer", task.tokenizer, "model, bytes, or a directory");
  command->add_option("--dtype", flags->dtype, "bf16, fp16 or fp32 (the weights')");
  command->add_option("--device", task.device, "auto (a GPU where there is one), cpu or cuda");
  command->add_option("--threads", task.threads, "compute threads (the cores)");
  command->add_option("--device-memory", flags->device_memory, "hard budget, e.g. 1GiB");
  command->add_option("--host-memory", flags->host_memory, "hard budget, e.g. 1GiB");
  command->add_option("--swap", flags->swap, "parents for swap files where weights do not fit");
  command->add_flag("--json", task.as_json, "one JSON object on stdout");
  command->footer(
      "The text goes to stdout, all else to stderr.\n"
      "Example:\n  spillway generate --model run/model --prompt 'And God said' --tokens 200");
  command->callback(
      [run, flags] { *run = [flags]() -> CommandOutcome { return {Generate(*flags)}; }; });
}

}  // namespace spillway
