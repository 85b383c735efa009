// spillway bench: rates of this machine.
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "engine/base/size.h"
#include "engine/tuning/bench_adam.h"
#include "nlohmann/json.hpp"
#include "tools/commands.h"

namespace spillway {
namespace {

CommandOutcome BenchAdam(const std::string& parameters_text, int threads, bool as_json) {
  const auto parameters = ParseCount(parameters_text);
  if (!parameters.ok()) return {parameters.status()};
  if (*parameters < 1 || threads < 1) {
    return {absl::InvalidArgumentError("--params and --threads must be at least 1")};
  }
  const AdamBenchResult result = RunAdamBench(*parameters, threads);
  if (as_json) {
    const nlohmann::json json = {{"parameters", result.parameters},
                                 {"threads", result.threads},
                                 {"seconds", result.seconds},
                                 {"bytes_per_second", result.bytes_per_second},
                                 {"memory_bytes_per_second", result.memory_bytes_per_second},
                                 {"fraction_of_memory", result.fraction_of_memory}};
    std::printf("%s\n", json.dump().c_str());
  } else {
    std::printf(
        "AdamW on %.1fM parameters, %d threads: %.4f s, %.1f GB/s; a plain copy moves %.1f GB/s\n",
        result.parameters * 1e-6, result.threads, result.seconds, result.bytes_per_second * 1e-9,
        result.memory_bytes_per_second * 1e-9);
  }
  return {};
}

}  // namespace

void AddBenchCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command = app.add_subcommand("bench", "Measure this machine");
  command->require_subcommand(1);
  CLI::App* adam = command->add_subcommand("adam", "The optimizer's update against a memory copy");
  struct Flags {
    std::string parameters = "100M";
    int threads = static_cast<int>(std::thread::hardware_concurrency());
    bool as_json = false;
  };
  auto flags = std::make_shared<Flags>();
  adam->add_option("--params", flags->parameters, "parameters (100M)");
  adam->add_option("--threads", flags->threads, "threads (the cores)");
  adam->add_flag("--json", flags->as_json, "one JSON object on stdout");
  adam->footer("Example:\n  spillway bench adam --params 100M --json");
  adam->callback([run, flags] {
    *run = [flags] { return BenchAdam(flags->parameters, flags->threads, flags->as_json); };
  });
  AddBenchIoCommand(*command, run);
  AddBenchSwapCommand(*command, run);
}

}  // namespace spillway
