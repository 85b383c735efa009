// spillway bench: rates of this machine.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/flag_value.h"
#include "engine/base/print_json.h"
#include "engine/machine/core_limits.h"
#include "engine/machine/memory_limits.h"
#include "engine/tuning/bench_adam.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "nlohmann/json.hpp"
#include "tools/commands.h"

namespace spillway {
namespace {

struct AdamFlags {
  std::string parameters = "100M";
  std::optional<std::string> threads;
  bool as_json = false;
};

absl::StatusOr<AdamBenchResult> RunWithFlags(const AdamFlags& flags) {
  constexpr int64_t kMostParameters = int64_t{1} << 50, kMostThreads = 256;
  ASSIGN_OR_RETURN(const int64_t parameters,
                   IntegerFlag("--params", flags.parameters, 1, kMostParameters));
  int64_t threads = std::min<int64_t>(UsableCores(), kMostThreads);
  if (flags.threads) {
    ASSIGN_OR_RETURN(threads, IntegerFlag("--threads", *flags.threads, 1, kMostThreads));
  }
  const uint64_t needed = static_cast<uint64_t>(parameters) * kAdamBenchBytesPerParameter;
  const uint64_t available = AvailableMemoryBytes();
  if (needed > available) {
    return DoesNotFitError(absl::StrCat("--params ", flags.parameters, " take ",
                                        FormatBytes(needed), " of memory, and ",
                                        FormatBytes(available), " are free: give at most ",
                                        available / kAdamBenchBytesPerParameter));
  }
  return RunAdamBench(static_cast<uint64_t>(parameters), static_cast<int>(threads));
}

CommandOutcome BenchAdam(const AdamFlags& flags) {
  const auto result = RunWithFlags(flags);
  if (!result.ok()) return {result.status()};
  if (flags.as_json) {
    PrintJson(nlohmann::json{{"parameters", result->parameters},
                             {"threads", result->threads},
                             {"seconds", result->seconds},
                             {"bytes_per_second", result->bytes_per_second},
                             {"memory_bytes_per_second", result->memory_bytes_per_second},
                             {"fraction_of_memory", result->fraction_of_memory}});
  } else {
    std::printf(
        "AdamW on %.1fM parameters, %d threads: %.4f s, %.1f GB/s; a plain copy moves %.1f GB/s\n",
        result->parameters * 1e-6, result->threads, result->seconds,
        result->bytes_per_second * 1e-9, result->memory_bytes_per_second * 1e-9);
  }
  return {};
}

}  // namespace

void AddBenchCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command = app.add_subcommand("bench", "Measure this machine");
  command->require_subcommand(1);
  CLI::App* adam = command->add_subcommand("adam", "The optimizer's update against a memory copy");
  auto flags = std::make_shared<AdamFlags>();
  adam->add_option("--params", flags->parameters, "parameters (100M)")->type_name("N");
  adam->add_option("--threads", flags->threads, "threads (the cores)")->type_name("N");
  adam->add_flag("--json", flags->as_json, "one JSON object on stdout");
  adam->footer("Example:\n  spillway bench adam --params 100M --json");
  adam->callback([run, flags] { *run = [flags] { return BenchAdam(*flags); }; });
  AddBenchIoCommand(*command, run);
  AddBenchSwapCommand(*command, run);
}

}  // namespace spillway
