#include "tools/ranks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/shell_line.h"
#include "engine/base/stop_signal.h"
#include "engine/config/rank_settings.h"
#include "engine/machine/process_setup.h"
#include "engine/ranks/hostfile.h"
#include "engine/ranks/rank_log.h"
#include "engine/ranks/spawn_ranks.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"
#include "io/file_system.h"

namespace spillway {
namespace {

// The ranks that a hostfile starts, for the checks of flags before.
Launch LaunchOf(const std::vector<HostSlots>& hosts, std::optional<int> ranks) {
  Launch launch;
  launch.launcher = "mpirun";
  launch.world_variable = "--hostfile";
  launch.world = 0;
  for (const HostSlots& host : hosts) launch.world += host.slots;
  launch.world = ranks.value_or(launch.world);
  launch.local_world = std::min(launch.world, hosts.front().slots);
  return launch;
}

absl::StatusOr<std::vector<std::string>> HostsCommand(const TrainFlags& flags) {
  if (!flags.hostfile) {
    return absl::InvalidArgumentError(
        "--launch runs the mpirun command of --hostfile FILE, which is missing");
  }
  ASSIGN_OR_RETURN(const std::optional<int> ranks, RanksFlag(flags));
  // The printed command uses the secret in its user's environment.
  if (flags.launch) setenv(kSecretVariable, NewRankSecret().c_str(), /*overwrite=*/0);
  const EnvironmentMap environment = ThisEnvironment();
  ASSIGN_OR_RETURN(const Launch outer, ReadLaunch(environment, std::nullopt));
  if (outer.world > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--hostfile: ", outer.launcher, " has started ", outer.world,
                     " ranks already: leave --hostfile out, or start this without the launcher"));
  }
  const auto text = ReadSmallFile(*flags.hostfile, 1 << 20);
  if (!text.ok()) return Annotate(text.status(), "--hostfile");
  ASSIGN_OR_RETURN(const std::vector<HostSlots> hosts, ParseHostfile(*text, *flags.hostfile));
  ASSIGN_OR_RETURN(const SpawnOptions self, SpawnThisProgram(1));
  ASSIGN_OR_RETURN(std::vector<std::string> command,
                   MpirunCommand(hosts, self.arguments, ranks, environment));
  RETURN_IF_ERROR(ResolveRunConfig(flags, LaunchOf(hosts, ranks)).status());
  return command;
}

// Copies a --config that can be read only once (a pipe) to a file in memory for the ranks.
absl::Status KeepConfig(const TrainFlags& flags, SpawnOptions& ranks) {
  if (!flags.config_text) return absl::OkStatus();
  const std::string& path = flags.recipe ? *flags.recipe : *flags.config;
  const auto found = FileSystem::Real().Stat(path, SymbolicLink::kFollow);
  if (!found.ok() || found->kind != FileInfo::Kind::kOther) return absl::OkStatus();
  const std::string& text = *flags.config_text;
  const int fd = memfd_create("config", 0);  // inherited by the ranks
  if (fd < 0) return ErrnoStatus(errno, "keep --config for the ranks");
  if (const int failed = WriteAll(fd, text.data(), text.size()); failed != 0) {
    return ErrnoStatus(failed, "keep --config for the ranks");
  }
  ranks.arguments.insert(ranks.arguments.end(),  // the last one counts
                         {"--config", absl::StrCat("/proc/self/fd/", fd)});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Launch> FindLaunch(const TrainFlags& flags) {
  static const StopSignal signals;
  FailWritesToNobody();
  ASSIGN_OR_RETURN(const std::optional<int> ranks, RanksFlag(flags));
  ASSIGN_OR_RETURN(const Launch launch, ReadLaunch(ThisEnvironment(), ranks));
  SetUpRankLog(launch);
  SetLocalVariables(launch);
  return launch;
}

absl::StatusOr<RunConfig> ResolveForRanks(const TrainFlags& flags, const Launch& launch) {
  return ResolveRunConfig(flags, launch);
}

CommandOutcome StartRanks(const TrainFlags& flags, const Launch& launch) {
  absl::StatusOr<SpawnOptions> self = SpawnThisProgram(launch.world);
  if (!self.ok()) return {self.status()};
  if (absl::Status status = KeepConfig(flags, *self); !status.ok()) return {status};
  if (absl::Status status = ResolveForRanks(flags, launch).status(); !status.ok()) return {status};
  const auto code = SpawnRanks(*self);
  if (!code.ok()) return {code.status()};
  return {absl::OkStatus(), *code};
}

CommandOutcome StartOverHosts(const TrainFlags& flags) {
  const auto command = HostsCommand(flags);
  if (!command.ok()) return {command.status()};
  if (!flags.launch) {
    LogInfo("this starts the ranks over the hosts (Open MPI); --launch runs it:");
    std::printf("%s\n", ShellLine(*command).c_str());
    return {};
  }
  LogInfo(absl::StrCat("starting ", ShellLine(*command)));
  std::vector<char*> words;
  for (const std::string& word : *command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  return {ErrnoStatus(errno, "run mpirun for --launch (Open MPI: openmpi-bin on Debian)")};
}

}  // namespace spillway
