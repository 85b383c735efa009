// spillway clean: the runs below swap paths, and what dead ones hold.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/flag_value.h"
#include "engine/base/print_json.h"
#include "engine/machine/swap_paths.h"
#include "engine/run/kept_state.h"
#include "engine/run/swap_inventory.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/base/terminal.h"
#include "io/file_system.h"
#include "nlohmann/json.hpp"
#include "tools/commands.h"

namespace spillway {
namespace {

struct CleanFlags {
  std::string swap, output;
  bool finished = false;
  bool force = false;
  bool remove = false;
  bool as_json = false;
};

struct Listed {
  SwapRun run;
  bool removed = false;
};

std::string AgeText(int64_t since_seconds) {
  if (since_seconds == 0) return "";
  const int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  const int64_t age = std::max<int64_t>(0, now - since_seconds);
  if (age < 120) return absl::StrCat(age, " s");
  if (age < 2 * 3600) return absl::StrCat(age / 60, " min");
  if (age < 48 * 3600) return absl::StrCat(age / 3600, " h");
  return absl::StrCat(age / (24 * 3600), " days");
}

// Of a path with {rank} in it those of all ranks that are there.
std::vector<std::string> PathsOfRanks(const std::string& path) {
  constexpr int kMostRanks = 256;  // of a machine
  std::vector<std::string> paths = {SwapPathOfRank(path, 0)};
  if (paths[0] == path) return paths;
  for (int rank = 1; rank < kMostRanks; ++rank) {
    const std::string other = SwapPathOfRank(path, rank);
    if (!Exists(other)) continue;
    if (!Exists(paths[0])) paths.clear();
    paths.push_back(other);
  }
  return paths;
}

// The same folder under two names is looked at once.
absl::StatusOr<std::vector<Listed>> List(const std::vector<std::string>& parents) {
  std::vector<Listed> listed;
  std::set<std::string> seen;
  std::vector<std::string> all;
  for (const std::string& parent : parents) {
    const std::vector<std::string> paths = PathsOfRanks(parent);
    all.insert(all.end(), paths.begin(), paths.end());
  }
  for (const std::string& parent : all) {
    ASSIGN_OR_RETURN(const std::string path,
                     CanonicalPath(parent, absl::StrCat("--swap ", parent)));
    if (!seen.insert(path).second) continue;
    ASSIGN_OR_RETURN(std::vector<SwapRun> runs, FindSwapRuns(path));
    for (SwapRun& run : runs) listed.push_back({std::move(run)});
  }
  return listed;
}

// Those of one run, which is named; none where its state was freed.
absl::StatusOr<std::vector<Listed>> ListOutput(const std::string& output) {
  ASSIGN_OR_RETURN(KeptState kept, FindKeptState(output));
  std::vector<Listed> listed;
  for (SwapRun& run : kept.runs) listed.push_back({std::move(run)});
  return listed;
}

nlohmann::json RunsJson(const std::vector<Listed>& listed, uint64_t freed_bytes) {
  nlohmann::json runs = nlohmann::json::array();
  uint64_t dead_bytes = 0;
  for (const auto& [run, removed] : listed) {
    runs.push_back({{"path", run.path},
                    {"state", SwapRunStateName(run.state)},
                    {"reason", run.reason},
                    {"output", run.output},
                    {"finished", run.finished},
                    {"bytes", run.allocated_bytes},
                    {"started", run.started_seconds},
                    {"modified", run.modified_seconds},
                    {"removed", removed}});
    if (run.state == SwapRun::State::kDead && !removed) dead_bytes += run.allocated_bytes;
  }
  return {{"runs", runs}, {"dead_bytes", dead_bytes}, {"freed_bytes", freed_bytes}};
}

void PrintRuns(const std::vector<Listed>& listed, const CleanFlags& flags, uint64_t freed_bytes) {
  uint64_t dead_bytes = 0, finished_bytes = 0;
  for (const auto& [run, removed] : listed) {
    const bool dead = run.state == SwapRun::State::kDead && !removed;
    if (dead) dead_bytes += run.allocated_bytes;
    if (run.finished && !removed) finished_bytes += run.allocated_bytes;
    const std::string age = AgeText(run.modified_seconds);
    std::printf("%-10s %s%s%s\n  %s\n  %s\n", removed ? "removed" : SwapRunStateName(run.state),
                FormatBytes(run.allocated_bytes).c_str(), age.empty() ? "" : ", last written ",
                age.empty() ? "" : (age + " ago").c_str(), ShownText(run.path).c_str(),
                ShownText(run.reason).c_str());
  }
  if (listed.empty()) std::puts("no run has files there");
  if (freed_bytes > 0) std::printf("freed %s\n", FormatBytes(freed_bytes).c_str());
  if (flags.remove) return;
  if (dead_bytes > 0) {
    std::printf("dead runs hold %s; --remove frees it\n", FormatBytes(dead_bytes).c_str());
  }
  if (finished_bytes > 0) {
    std::printf("finished runs hold %s, to be resumed with more steps; %s frees it\n",
                FormatBytes(finished_bytes).c_str(),
                flags.finished || !flags.output.empty() ? "--remove" : "--finished --remove");
  }
}

// The state of a finished run, with all ranks'. Of one that was only found, and not named, what is
// in the way is a warning.
absl::Status Free(const std::string& output, const CleanFlags& flags, std::vector<Listed>& listed,
                  uint64_t& freed_bytes) {
  const auto bytes = FreeKeptState(output, flags.force);
  if (!bytes.ok()) {
    if (!flags.output.empty() || !absl::IsFailedPrecondition(bytes.status())) return bytes.status();
    LogWarning(bytes.status().message());
    return absl::OkStatus();
  }
  freed_bytes += *bytes;
  for (auto& [run, removed] : listed) {
    removed |= OutputOfAllRanks(run.output) == output && !Exists(run.path);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Listed>> ListAll(const CleanFlags& flags) {
  if (flags.swap.empty() == flags.output.empty()) {
    return absl::InvalidArgumentError(
        "give --swap PATH[,PATH...], to look at all runs there, or --output DIR, for the state of "
        "one finished run");
  }
  if (!flags.output.empty()) return ListOutput(flags.output);
  ASSIGN_OR_RETURN(const std::vector<std::string> parents, ListFlag("--swap", flags.swap));
  return List(parents);
}

CommandOutcome RunClean(const CleanFlags& flags) {
  auto listed = ListAll(flags);
  if (!listed.ok()) return {listed.status()};
  uint64_t freed_bytes = 0;
  absl::Status failed;
  std::set<std::string> finished;
  if (!flags.output.empty()) finished.insert(FileSystem::Real().Resolve(flags.output));
  for (const auto& [run, removed] : *listed) {
    if (flags.finished && run.finished) finished.insert(OutputOfAllRanks(run.output));
  }
  for (const std::string& output : finished) {
    if (flags.remove) failed.Update(Free(output, flags, *listed, freed_bytes));
  }
  for (auto& [run, removed] : *listed) {
    if (!flags.remove || removed || run.state != SwapRun::State::kDead) continue;
    const auto bytes = RemoveDeadRun(run);
    if (bytes.ok()) {
      removed = true;
      freed_bytes += *bytes;
    } else if (absl::IsFailedPrecondition(bytes.status())) {
      LogWarning(bytes.status().message());  // somebody uses it by now, or there is more in it
    } else {
      failed = absl::UnknownError(bytes.status().message());
    }
  }
  if (flags.as_json) {
    PrintJson(RunsJson(*listed, freed_bytes));
  } else {
    PrintRuns(*listed, flags, freed_bytes);
  }
  return {failed};
}

}  // namespace

void AddCleanCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command =
      app.add_subcommand("clean", "List the runs below swap paths, and remove dead ones' files");
  auto flags = std::make_shared<CleanFlags>();
  command
      ->add_option("--swap", flags->swap,
                   "paths given to train as --swap; without one a run's files are in its OUTPUT")
      ->type_name("PATH[,PATH...]");
  command
      ->add_option("--output", flags->output,
                   "in place of --swap: the OUTPUT of one finished run, whose state is found "
                   "wherever it is")
      ->type_name("DIR");
  command->add_flag("--finished", flags->finished,
                    "with --swap: take the state of finished runs, too, as --output does");
  command->add_flag("--force", flags->force,
                    "... also of those whose OUTPUT holds no exported model or adapter");
  command->add_flag("--remove", flags->remove,
                    "remove what dead runs hold: those whose OUTPUT is gone, has no commit, or "
                    "is on other swap");
  command->add_flag("--json", flags->as_json, "one JSON object on stdout");
  command->footer(
      "A run in use, one that can be resumed, and one of another machine or user stay. A finished "
      "run whose state is taken keeps its model, metrics and report.\n"
      "Examples:\n  spillway clean --swap /nvme/swap --remove\n"
      "  spillway clean --output run --remove");
  command->callback([run, flags] { *run = [flags] { return RunClean(*flags); }; });
}

}  // namespace spillway
