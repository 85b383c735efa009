// The subcommands of `spillway`, one file each. A command adds itself to the app and
// sets `run`, which main calls after parsing.
#pragma once

#include <functional>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "engine/config/other_flags.h"
#include "engine/config/run_config.h"

namespace spillway {

// The result of a command: an exit code (INTERFACE), or an error that has one.
struct CommandOutcome {
  absl::Status status;
  int exit_code = 0;  // if the status is OK
};

using CommandFunction = std::function<CommandOutcome()>;

// Adds train's flags, which estimate takes too; `flags` outlives the app.
void AddTrainFlags(CLI::App& command, TrainFlags& flags);

// `run` is set if the command was chosen. `words` is filled before the command line is parsed.
void AddTrainCommand(CLI::App& app, CommandFunction* run, const TranslatedWords& words);
void AddEstimateCommand(CLI::App& app, CommandFunction* run, const TranslatedWords& words);
void AddTokenizeCommand(CLI::App& app, CommandFunction* run);
void AddGenerateCommand(CLI::App& app, CommandFunction* run);
void AddPredictCommand(CLI::App& app, CommandFunction* run);
void AddInspectCommand(CLI::App& app, CommandFunction* run);
void AddReportCommand(CLI::App& app, CommandFunction* run);
void AddExportCommand(CLI::App& app, CommandFunction* run);
void AddBenchCommand(CLI::App& app, CommandFunction* run);
void AddTuneCommand(CLI::App& app, CommandFunction* run);
// A subcommand of `bench`.
void AddBenchSwapCommand(CLI::App& bench, CommandFunction* run);
void AddBenchIoCommand(CLI::App& bench, CommandFunction* run);
void AddDoctorCommand(CLI::App& app, CommandFunction* run);
void AddSetupCommand(CLI::App& app, CommandFunction* run);
void AddCleanCommand(CLI::App& app, CommandFunction* run);
void AddVersionCommand(CLI::App& app, CommandFunction* run);
void AddManCommand(CLI::App& app, CommandFunction* run);
void AddCompletionCommand(CLI::App& app, CommandFunction* run);

}  // namespace spillway
