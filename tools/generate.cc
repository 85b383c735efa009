// spillway generate: a sample from a model directory.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/safetensors.h"
#include "engine/size.h"
#include "engine/tokenizer.h"
#include "engine/torch/generator.h"
#include "engine/torch/gpt2.h"
#include "engine/torch/gpt2_weights.h"
#include "io/status.h"
#include "tools/commands.h"

namespace spillway {
namespace {

struct GenerateFlags {
  std::string model, prompt, dtype = "bf16", device_memory = "512MiB", host_memory = "512MiB", swap;
  int64_t tokens = 100;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  SamplingOptions sampling;
};

absl::Status Generate(const GenerateFlags& flags) {
  GeneratorOptions options;
  ASSIGN_OR_RETURN(options.device_memory_bytes, ParseSize(flags.device_memory));
  ASSIGN_OR_RETURN(options.host_memory_bytes, ParseSize(flags.host_memory));
  if (!flags.swap.empty()) options.swap_paths = absl::StrSplit(flags.swap, ',');
  options.threads = flags.threads;
  const auto dtype = DTypeFromName(flags.dtype);
  if (!dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype ", flags.dtype, " is unknown: bf16, fp16 or fp32"));
  }
  options.dtype = *dtype;

  ASSIGN_OR_RETURN(const Gpt2Config config, ReadGpt2Config(flags.model));
  ASSIGN_OR_RETURN(const Model model, BuildGpt2(config));
  ASSIGN_OR_RETURN(const auto files, SafetensorsModel::Open(flags.model));
  ASSIGN_OR_RETURN(const auto weights, OpenGpt2Weights(config, files.get()));
  ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(flags.model));
  ASSIGN_OR_RETURN(std::vector<int64_t> tokens, tokenizer->Encode(flags.prompt));
  if (tokens.empty()) return absl::InvalidArgumentError("--prompt must not be empty");
  ASSIGN_OR_RETURN(const auto generator, Generator::Create(model, weights.get(), options));

  std::printf("%s", flags.prompt.c_str());
  for (int64_t i = 0; i < flags.tokens; ++i) {
    const int64_t context = std::min<int64_t>(tokens.size(), config.n_positions);
    ASSIGN_OR_RETURN(const torch::Tensor logits,
                     generator->NextLogits({tokens.end() - context, tokens.end()}));
    // A vocabulary may be padded beyond what the tokenizer knows.
    const int64_t known = std::min<int64_t>(logits.numel(), tokenizer->vocabulary_size());
    tokens.push_back(Generator::Sample(logits.narrow(0, 0, known), flags.sampling, i));
    ASSIGN_OR_RETURN(const std::string text, tokenizer->Decode({&tokens.back(), 1}));
    std::printf("%s", text.c_str());
    std::fflush(stdout);
  }
  std::printf("\n");
  return absl::OkStatus();
}

}  // namespace

void AddGenerateCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command = app.add_subcommand("generate", "Print a sample from a model directory");
  auto flags = std::make_shared<GenerateFlags>();
  command->add_option("--model", flags->model, "model directory, e.g. OUTPUT/model")->required();
  command->add_option("--prompt", flags->prompt, "text to continue")->required();
  command->add_option("--tokens", flags->tokens, "tokens to add (100)");
  command->add_option("--temperature", flags->sampling.temperature, "0.8; 0: the likeliest token");
  command->add_option("--top-k", flags->sampling.top_k, "50; 0: all");
  command->add_option("--seed", flags->sampling.seed, "42");
  command->add_option("--dtype", flags->dtype, "bf16, fp16 or fp32");
  command->add_option("--threads", flags->threads, "compute threads (the cores)");
  command->add_option("--device-memory", flags->device_memory, "hard budget (512MiB)");
  command->add_option("--host-memory", flags->host_memory, "hard budget (512MiB)");
  command->add_option("--swap", flags->swap, "parents for swap files where weights do not fit");
  command->footer(
      "Example:\n  spillway generate --model run/model --prompt 'And God said' --tokens 200");
  command->callback(
      [run, flags] { *run = [flags]() -> CommandOutcome { return {Generate(*flags)}; }; });
}

}  // namespace spillway
