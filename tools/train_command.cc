// spillway train: its flags, and starting its ranks; tools/compute/train_model.cc trains.
#include <memory>
#include <string>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/config/other_flags.h"
#include "engine/config/recipe.h"
#include "engine/config/run_config.h"
#include "engine/config/train_flag_table.h"
#include "engine/machine/swap_paths.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"
#include "tools/build_info.h"
#include "tools/commands.h"
#include "tools/compute_library.h"
#include "tools/device_flag.h"
#include "tools/given_model.h"
#include "tools/ranks.h"

namespace spillway {
namespace {

// Refuses inputs that the run would overwrite, or that --overwrite would remove.
absl::Status RefuseOwnResults(const RunConfig& config) {
  const std::string& output = config.train.output;
  if (SameFile(config.model, output + "/model")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--model ", config.model,
        " is where this run's --output puts its trained model: give another --output"));
  }
  for (const char* own : {"/adapter", "/model", "/source"}) {
    if (!SameFile(config.adapter.directory, output + own)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--adapter ", config.adapter.directory,
        " is a folder of this run's --output, which the run writes anew: give another --output, or "
        "copy the adapter out of it first"));
  }
  return absl::OkStatus();
}

absl::StatusOr<RunConfig> ReadConfig(const TrainFlags& flags, const Launch& launch) {
  ASSIGN_OR_RETURN(RunConfig config, ResolveForRanks(flags, launch));
  TuneRunConfig(&config);
  config.train.origin = ThisRunOrigin();
  RETURN_IF_ERROR(RefuseOwnResults(config));
  RETURN_IF_ERROR(CheckTakesFiles("--output", config.train.output));
  if (!config.train.persist.empty()) {
    RETURN_IF_ERROR(CheckTakesFiles("--persist", config.train.persist));
  }
  for (const std::string& note : config.notes) LogInfo(note);
  for (const std::string& warning : config.warnings) LogWarning(warning);
  RETURN_IF_ERROR(ResolveDevice(&config).status());
  return config;
}

CommandOutcome RunTrain(const TrainFlags& given) {
  TrainFlags taken = given;
  if (absl::Status status = TakeConfigFile(&taken); !status.ok()) return {status};
  if (taken.hostfile || taken.launch) return StartOverHosts(taken);
  const auto launch = FindLaunch(taken);
  if (!launch.ok()) return {launch.status()};
  TrainFlags flags = taken;
  const absl::Status found =
      ResolveGivenModels(HubFiles::kWeights, /*logs=*/!launch->to_be_spawned(), flags);
  if (!found.ok()) return {found};
  // Ranks search it themselves, after it was downloaded here.
  if (launch->to_be_spawned()) return StartRanks(taken, *launch);
  const auto config = ReadConfig(flags, *launch);
  if (!config.ok()) return {config.status()};
  const auto compute = OpenComputeLibrary();
  if (!compute.ok()) return {compute.status()};
  return (*compute)->Train(*config);
}

}  // namespace

void AddTrainFlags(CLI::App& command, TrainFlags& flags) {
  for (const TrainFlagGroup& group : TrainFlagGroups()) {
    for (const TrainFlag& flag : group.flags) {
      CLI::Option* const option = std::visit(
          [&](auto field) -> CLI::Option* {
            if constexpr (std::is_same_v<decltype(field), bool TrainFlags::*>) {
              return command.add_flag(flag.name, flags.*field, flag.FullHelp());
            } else {
              return command.add_option(flag.name, flags.*field, flag.FullHelp())
                  ->type_name(flag.type);
            }
          },
          flag.field);
      option->group(group.title);
      if (*flag.type == '[') option->expected(0, 1);
    }
  }
  // Flags of other programs, which help does not show.
  for (const OtherFlag& flag : OtherTrainFlags()) {
    if (flag.field != nullptr) command.add_option(flag.name, flags.*flag.field)->group("");
  }
}

void AddTrainCommand(CLI::App& app, CommandFunction* run, const TranslatedWords& words) {
  CLI::App* command = app.add_subcommand("train", "Train a model from a Hugging Face directory");
  auto flags = std::make_shared<TrainFlags>();
  AddTrainFlags(*command, *flags);
  command->footer(
      "The flags of Hugging Face Trainer, TRL and PEFT are understood, too (docs/CONFIG.md).\n"
      "Example:\n  spillway train --model gpt2/ --data corpus.txt --output run "
      "--swap /nvme/swap --offload nvme --device-memory 1GiB --host-memory 3GiB");
  command->callback([run, flags, &words] {
    flags->without_effect = words.without_effect;
    flags->refused = words.refused;
    *run = [flags] { return RunTrain(*flags); };
  });
}

}  // namespace spillway
