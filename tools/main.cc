// The `spillway` command: parses, runs one subcommand, and returns its status as an exit code.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "engine/base/flag_value.h"
#include "engine/base/nearest.h"
#include "engine/config/other_flags.h"
#include "engine/machine/memory_limits.h"
#include "engine/machine/process_setup.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "tools/build_info.h"
#include "tools/command_flags.h"
#include "tools/commands.h"
#include "tools/help_text.h"
#include "tools/last_resort.h"

namespace spillway {
namespace {

// The command that the words begin with ("train", "bench adam"), and the number of its words.
struct NamedCommand {
  const CLI::App* app;
  size_t words = 0;
};

NamedCommand FindCommand(const CLI::App& app, const std::vector<std::string>& words) {
  NamedCommand found = {&app};
  while (found.words < words.size()) {
    const CLI::App* const inner = FindSubcommand(*found.app, words[found.words]);
    if (inner == nullptr) break;
    found.app = inner;
    ++found.words;
  }
  return found;
}

// An error that lists the subcommands, if a command that needs one got none.
absl::Status CheckSubcommand(const NamedCommand& command, const std::vector<std::string>& words) {
  const std::vector<std::string> names = SubcommandNames(*command.app);
  if (names.empty()) return absl::OkStatus();
  const bool top = command.app->get_parent() == nullptr;
  const std::string name = FullCommandName(*command.app);
  if (command.words == words.size()) {
    if (top) return absl::OkStatus();  // shows its help
    return absl::InvalidArgumentError(
        absl::StrCat(name, " needs one of: ", absl::StrJoin(names, ", "), " (", name, " --help)"));
  }
  const std::string& word = words[command.words];
  if (absl::StartsWith(word, "-")) return absl::OkStatus();
  const std::string nearest = NearestName(word, names);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown subcommand ", word,
                   nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"), " (", name,
                   " --help lists them)"));
}

absl::Span<const OtherFlag> OtherFlagsOf(const CLI::App& command) {
  const std::string& name = command.get_name();
  if (name == "train" || name == "estimate") return OtherTrainFlags();
  if (name == "generate" || name == "predict") return OtherTextFlags();
  return {};
}

// Reports everything that prevents a command from running, with the parser's own error last.
void ReportRefused(const std::vector<std::string>& refused, const std::string& parser = "") {
  std::vector<absl::Status> errors;
  for (const std::string& each : refused) errors.push_back(absl::InvalidArgumentError(each));
  // A misspelt flag may be the reason why another one is missing.
  if (!parser.empty() && refused.empty()) errors.push_back(absl::InvalidArgumentError(parser));
  LogError(AllErrors(errors).message());
}

void PrintPage(const std::string& page, std::FILE* to = stdout) { std::fputs(page.c_str(), to); }

// `spillway help train` is `spillway train --help`, and `spillway help train lora` shows a group.
std::optional<int> AnswerHelp(const CLI::App& app, std::vector<std::string>* words) {
  if (words->empty() || words->front() != "help") return std::nullopt;
  words->erase(words->begin());
  const NamedCommand command = FindCommand(app, *words);
  if (command.words < words->size() && command.words > 0) {
    const std::string& topic = (*words)[command.words];
    const std::string page = HelpOfGroups(*command.app, topic);
    if (!absl::StartsWith(topic, "-") && page.empty()) {
      LogError(absl::StrCat("no group of flags has '", topic, "' in its title (",
                            FullCommandName(*command.app), " --help lists them)"));
      return 2;
    }
    PrintPage(page);
    return 0;
  }
  words->resize(std::min<size_t>(words->size(), std::max<size_t>(1, command.words)));
  words->push_back("--help");
  return std::nullopt;
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

// Whether all output was written. A closed pipe is not an error: its reader wanted no more.
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
  // The last one of repeated flags counts, so that a script can append its own.
  app.option_defaults()->take_last();
  app.set_version_flag("-V,--version", "spillway " + ThisRunOrigin().version,
                       "print the version; `spillway version` prints the build, too");
  app.set_help_flag("-h,--help", "print this help; after a subcommand, that one's");
  app.set_help_all_flag("--help-all", "print all of it");
  app.footer(
      "Exit codes: 0 done, 1 failed, 2 bad input, 3 does not fit the budgets, 4 wrong bytes, "
      "75 stopped by a signal or a limit after committing (continue with --resume).");
  CommandFunction run;
  TranslatedWords translated;
  AddTrainCommand(app, &run, translated);
  AddEstimateCommand(app, &run, translated);
  AddGenerateCommand(app, &run);
  AddPredictCommand(app, &run);
  AddExportCommand(app, &run);
  AddInspectCommand(app, &run);
  AddReportCommand(app, &run);
  AddCleanCommand(app, &run);
  AddTokenizeCommand(app, &run);
  AddDoctorCommand(app, &run);
  AddTuneCommand(app, &run);
  AddBenchCommand(app, &run);
  AddSetupCommand(app, &run);
  AddCompletionCommand(app, &run);
  AddManCommand(app, &run);
  AddVersionCommand(app, &run);
  bool quiet = false;
  constexpr char kQuiet[] = "show only warnings, errors and the result";
  app.add_flag("-q,--quiet", quiet, kQuiet);
  for (CLI::App* one : app.get_subcommands({})) one->add_flag("-q,--quiet", quiet, kQuiet);

  std::vector<std::string> words(argv + 1, argv + argc);
  // The only flag that may precede a command's name: it is also that command's.
  if (words.size() > 1 && (words[0] == "-q" || words[0] == "--quiet")) {
    std::swap(words[0], words[1]);
  }
  if (const std::optional<int> answered = AnswerHelp(app, &words)) return *answered;
  const NamedCommand command = FindCommand(app, words);
  if (const absl::Status status = CheckSubcommand(command, words); !status.ok()) {
    LogError(status.message());
    return 2;
  }
  translated = TranslateWords({words.begin() + command.words, words.end()},
                              OwnFlagsOf(*command.app), OtherFlagsOf(*command.app));
  // train and estimate report these errors together with all others.
  const bool tells_itself = OtherFlagsOf(*command.app).data() == OtherTrainFlags().data();
  // CLI11 expects them in reverse order, without the program's name.
  std::vector<std::string> arguments(translated.words.rbegin(), translated.words.rend());
  for (size_t i = command.words; i > 0; --i) arguments.push_back(words[i - 1]);
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    PrintPage(HelpPage(*command.app, HelpKind::kUsual));
    return 0;
  } catch (const CLI::CallForAllHelp&) {
    PrintPage(HelpPage(*command.app, HelpKind::kAll));
    return 0;
  } catch (const CLI::CallForVersion& version) {
    PrintPage(absl::StrCat(version.what(), "\n"));
    return 0;
  } catch (const CLI::ParseError& error) {
    ReportRefused(translated.refused, error.what());
    return 2;
  }
  if (!translated.refused.empty() && !tells_itself) {
    ReportRefused(translated.refused);
    return 2;
  }
  if (!translated.without_effect.empty() && !tells_itself) {
    LogInfo(absl::StrCat("without effect here: ", absl::StrJoin(translated.without_effect, ", ")));
  }
  if (!run) {
    PrintPage(HelpPage(app, HelpKind::kUsual), stderr);
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
  // LibTorch would take a fifth of a second to destroy what it registered.
  _exit(code);
#endif
  return code;
}
