// The `spillway` command: parses, runs one subcommand, turns its status into an exit code.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/nearest.h"
#include "engine/config/trainer_flags.h"
#include "engine/machine/memory_limits.h"
#include "engine/machine/process_setup.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "tools/build_info.h"
#include "tools/commands.h"
#include "tools/help_text.h"
#include "tools/last_resort.h"

namespace spillway {
namespace {

std::vector<std::string> FlagNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// "spillway bench adam".
std::string FullName(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name()
                           : absl::StrCat(FullName(*parent), " ", command.get_name());
}

// What the command line has too much of, with what to do instead: the nearest known flag.
void ReportUnknown(const CLI::App& command, const std::string& word) {
  std::string message = absl::StrCat("unknown argument ", word);
  if (absl::StartsWith(word, "--")) {
    const std::string name = word.substr(0, word.find('='));
    const std::string nearest = NearestName(name, FlagNames(command));
    const std::string advice = command.get_name() == "train" ? TrainerFlagAdvice(name) : "";
    if (!advice.empty()) {
      absl::StrAppend(&message, " (Hugging Face Trainer's): ", advice);
    } else if (!nearest.empty()) {
      absl::StrAppend(&message, "; did you mean ", nearest, "?");
    }
  }
  absl::StrAppend(&message, " (", FullName(command), " --help lists the flags)");
  LogError(message);
}

// "--seq_len" is "--seq-len", and "--output-dir" is the Trainer's "--output_dir": where
// only the other spelling is a flag of some command, that is what was meant.
std::string KnownSpelling(const std::string& word, const std::set<std::string>& flags) {
  if (!absl::StartsWith(word, "--")) return word;
  const size_t end = std::min(word.find('='), word.size());
  const std::string name = word.substr(0, end);
  if (flags.count(name) > 0) return word;
  for (const auto& [from, to] : {std::pair{'_', '-'}, std::pair{'-', '_'}}) {
    std::string other = name;
    std::replace(other.begin() + 2, other.end(), from, to);
    if (flags.count(other) > 0) return other + word.substr(end);
  }
  return word;
}

// CLI11 wants them last first, without the program's name.
std::vector<std::string> Arguments(const std::vector<std::string>& words, const CLI::App& app) {
  std::set<std::string> flags;
  for (const CLI::App* command : app.get_subcommands({})) {
    for (std::string& name : FlagNames(*command)) flags.insert(std::move(name));
    for (const CLI::App* inner : command->get_subcommands({})) {
      for (std::string& name : FlagNames(*inner)) flags.insert(std::move(name));
    }
  }
  std::vector<std::string> arguments;
  for (auto word = words.rbegin(); word != words.rend(); ++word) {
    arguments.push_back(KnownSpelling(*word, flags));
  }
  return arguments;
}

// A first word that is no subcommand, with the nearest that is.
void ReportUnknownCommand(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::string nearest = NearestName(word, names);
  LogError(absl::StrCat("unknown subcommand ", word,
                        nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"),
                        " (spillway --help lists them)"));
}

// True where the command line has words that nothing takes; the first is reported.
bool ReportExtras(const CLI::App& app) {
  if (const std::vector<std::string> extras = app.remaining(); !extras.empty()) {
    if (absl::StartsWith(extras.front(), "-")) {
      ReportUnknown(app, extras.front());
    } else {
      ReportUnknownCommand(app, extras.front());
    }
    return true;
  }
  for (const CLI::App* command : app.get_subcommands()) {
    if (const std::vector<std::string> extras = command->remaining(); !extras.empty()) {
      ReportUnknown(*command, extras.front());
      return true;
    }
    for (const CLI::App* inner : command->get_subcommands()) {
      if (const std::vector<std::string> extras = inner->remaining(); !extras.empty()) {
        ReportUnknown(*inner, extras.front());
        return true;
      }
    }
  }
  return false;
}

CommandOutcome RunGuarded(const CommandFunction& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return {StatusOfException()};
  } catch (const std::system_error&) {
    return {StatusOfException()};
  } catch (const std::exception& error) {
    return {absl::InternalError(absl::StrCat("an error that was not foreseen: ", error.what()))};
  }
}

// Whether all that was printed has arrived. A reader who has closed the pipe wanted no more.
absl::Status FlushOutput() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
  const int error = errno;  // 0: an earlier write failed
  pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0) return absl::OkStatus();
  constexpr char kWhat[] = "standard output cannot be written";
  return error == 0 ? absl::UnavailableError(kWhat) : ErrnoStatus(error, kWhat);
}

int Main(int argc, char** argv) {
  OpenStandardStreams();
  ExplainTerminate();
  FailBeyondFileSizeLimit();
  SetCommandLine({argv, argv + argc});
  CLI::App app(
      "Spillway trains models that do not fit: state on NVMe, in host memory and on the "
      "device, moved before it is needed.");
  app.name("spillway");
  app.require_subcommand(0, 1);
  app.allow_extras();
  // Of a flag given twice the last one counts, so that a script can append its own.
  app.option_defaults()->take_last();
  app.set_version_flag("-V,--version", "spillway " + ThisRunOrigin().version);
  app.set_help_flag("-h,--help", "Print this help; after a subcommand, that one's");
  app.footer(
      "Exit codes: 0 done, 1 failed, 2 bad input, 3 does not fit the budgets, 4 wrong bytes, "
      "75 stopped by a signal or a limit after committing (continue with --resume).");
  CommandFunction run;
  AddDoctorCommand(app, &run);
  AddEstimateCommand(app, &run);
  AddTokenizeCommand(app, &run);
  AddTrainCommand(app, &run);
  AddReportCommand(app, &run);
  AddInspectCommand(app, &run);
  AddGenerateCommand(app, &run);
  AddPredictCommand(app, &run);
  AddExportCommand(app, &run);
  AddTuneCommand(app, &run);
  AddBenchCommand(app, &run);
  AddCleanCommand(app, &run);
  AddSetupCommand(app, &run);
  bool quiet = false;
  constexpr char kQuiet[] = "show only warnings, errors and the result";
  app.add_flag("-q,--quiet", quiet, kQuiet);
  for (CLI::App* command : app.get_subcommands({})) {
    command->allow_extras();
    command->add_flag("-q,--quiet", quiet, kQuiet);
  }

  // `spillway help train` is `spillway train --help`.
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    words.resize(std::min<size_t>(words.size(), 1));
    words.push_back("--help");
  }
  try {
    app.parse(Arguments(words, app));
  } catch (const CLI::Success& help) {
    std::ostringstream page;
    const int code = app.exit(help, page, page);
    std::fputs(FoldHelp(page.str()).c_str(), stdout);
    return code;
  } catch (const CLI::ParseError& error) {
    // A misspelt flag is why another one is missing.
    if (!ReportExtras(app)) LogError(error.what());
    return 2;
  }
  if (ReportExtras(app)) return 2;
  if (app.get_subcommands().empty()) {
    std::fputs(FoldHelp(app.help()).c_str(), stderr);
    return 2;
  }
  if (quiet) SetLogLevel(LogLevel::kResult);
  const CommandOutcome outcome = RunGuarded(run);
  if (outcome.status.ok()) return outcome.exit_code;
  LogError(std::string(outcome.status.message()));
  return ExitCodeOf(outcome.status);
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
  int code = spillway::Main(argc, argv);
  if (const absl::Status written = spillway::FlushOutput(); !written.ok()) {
    spillway::LogError(written.message());
    if (code == 0) code = 1;
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which have their say at exit
  // LibTorch would spend a fifth of a second on taking apart what it registered.
  _exit(code);
#endif
  return code;
}
