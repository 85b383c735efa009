// The `spillway` command: parses, runs one subcommand, turns its status into an exit code.
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/memory_limits.h"
#include "engine/nearest.h"
#include "engine/process_setup.h"
#include "io/log.h"
#include "tools/commands.h"

namespace spillway {
namespace {

std::vector<std::string> FlagNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// What the command line has too much of, with the nearest known flag.
int ReportUnknown(const CLI::App& command, const std::string& word) {
  std::string message = absl::StrCat("unknown argument ", word);
  if (absl::StartsWith(word, "--")) {
    const std::string nearest = NearestName(word.substr(0, word.find('=')), FlagNames(command));
    if (!nearest.empty()) absl::StrAppend(&message, "; did you mean ", nearest, "?");
  }
  absl::StrAppend(&message, " (spillway ", command.get_name(), " --help lists the flags)");
  LogError(message);
  return 2;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Spillway trains models that do not fit: state on NVMe, in host memory and on the "
      "device, moved before it is needed.");
  app.name("spillway");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 failed, 2 bad input, 3 does not fit the budgets, 4 wrong bytes, "
      "75 stopped by a signal after committing (continue with --resume).");
  CommandFunction run;
  AddTrainCommand(app, &run);
  AddGenerateCommand(app, &run);
  AddInspectCommand(app, &run);
  AddExportCommand(app, &run);
  AddBenchCommand(app, &run);
  AddEstimateCommand(app, &run);
  for (CLI::App* command : app.get_subcommands({})) command->allow_extras();

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    LogError(error.what());
    return 2;
  }
  for (const CLI::App* command : app.get_subcommands()) {
    const std::vector<std::string> extras = command->remaining();
    if (!extras.empty()) return ReportUnknown(*command, extras.front());
    for (const CLI::App* inner : command->get_subcommands()) {
      const std::vector<std::string> more = inner->remaining();
      if (!more.empty()) return ReportUnknown(*inner, more.front());
    }
  }
  const CommandOutcome outcome = run();
  if (outcome.status.ok()) return outcome.exit_code;
  LogError(std::string(outcome.status.message()));
  return ExitCodeOf(outcome.status);
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
  spillway::SleepingOpenMpThreads(argv);
  return spillway::Main(argc, argv);
}
