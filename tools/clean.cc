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
#include "engine/machine/swap_paths.h"
#include "engine/run/swap_inventory.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"
#include "nlohmann/json.hpp"
#include "tools/commands.h"
#include "tools/print_json.h"

namespace spillway {
namespace {

struct CleanFlags {
  std::string swap;
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

nlohmann::json RunsJson(const std::vector<Listed>& listed, uint64_t freed_bytes) {
  nlohmann::json runs = nlohmann::json::array();
  uint64_t dead_bytes = 0;
  for (const auto& [run, removed] : listed) {
    runs.push_back({{"path", run.path},
                    {"state", SwapRunStateName(run.state)},
                    {"reason", run.reason},
                    {"output", run.output},
                    {"bytes", run.allocated_bytes},
                    {"started", run.started_seconds},
                    {"modified", run.modified_seconds},
                    {"removed", removed}});
    if (run.state == SwapRun::State::kDead && !removed) dead_bytes += run.allocated_bytes;
  }
  return {{"runs", runs}, {"dead_bytes", dead_bytes}, {"freed_bytes", freed_bytes}};
}

void PrintRuns(const std::vector<Listed>& listed, bool remove, uint64_t freed_bytes) {
  uint64_t dead_bytes = 0;
  for (const auto& [run, removed] : listed) {
    const bool dead = run.state == SwapRun::State::kDead && !removed;
    if (dead) dead_bytes += run.allocated_bytes;
    const std::string age = AgeText(run.modified_seconds);
    std::printf("%-10s %s%s%s\n  %s\n  %s\n", removed ? "removed" : SwapRunStateName(run.state),
                FormatBytes(run.allocated_bytes).c_str(), age.empty() ? "" : ", last written ",
                age.empty() ? "" : (age + " ago").c_str(), run.path.c_str(), run.reason.c_str());
  }
  if (listed.empty()) std::puts("no run has files there");
  if (freed_bytes > 0) std::printf("freed %s\n", FormatBytes(freed_bytes).c_str());
  if (dead_bytes > 0 && !remove) {
    std::printf("dead runs hold %s; --remove frees it\n", FormatBytes(dead_bytes).c_str());
  }
}

CommandOutcome RunClean(const CleanFlags& flags) {
  const auto parents = ListFlag("--swap", flags.swap);
  if (!parents.ok()) return {parents.status()};
  auto listed = List(*parents);
  if (!listed.ok()) return {listed.status()};
  uint64_t freed_bytes = 0;
  absl::Status failed;
  for (auto& [run, removed] : *listed) {
    if (!flags.remove || run.state != SwapRun::State::kDead) continue;
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
    PrintRuns(*listed, flags.remove, freed_bytes);
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
                   "paths given to train as --swap, PATH[,PATH...]; without one a run's files "
                   "are in its OUTPUT")
      ->required();
  command->add_flag("--remove", flags->remove,
                    "remove what dead runs hold: those whose OUTPUT is gone, has no commit, or "
                    "is on other swap");
  command->add_flag("--json", flags->as_json, "one JSON object on stdout");
  command->footer(
      "A run in use, one that can be resumed, and one of another machine or user stay.\n"
      "Example:\n  spillway clean --swap /nvme/swap --remove");
  command->callback([run, flags] { *run = [flags] { return RunClean(*flags); }; });
}

}  // namespace spillway
