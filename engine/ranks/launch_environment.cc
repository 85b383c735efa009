#include "engine/ranks/launch_environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/keyed_hash.h"
#include "engine/options/rank_options.h"
#include "engine/ranks/node_list.h"
#include "io/base/status.h"
#include "io/checksum.h"

namespace spillway {
namespace {

constexpr int kLowestPort = 20000;
constexpr int kHighestPort = 32767;
constexpr int kMostDescriptors = 1 << 30;

// SLURM numbers what is not a step of srun's from the top: the batch script 0xfffffffb, the shell
// of an interactive allocation 0xfffffffa, ...
constexpr uint32_t kFirstSpecialStep = 0xfffffff0;

class LaunchReader {
 public:
  LaunchReader(const EnvironmentMap& environment, std::optional<int> ranks)
      : environment_(environment), ranks_(ranks) {}

  absl::StatusOr<Launch> Read() {
    // Launchers can be nested, and pass their variables to what they start: srun starts torchrun on
    // each node, a batch script calls mpirun, whose daemons are a SLURM step. The innermost
    // launcher started this process, so its variables count. Nobody starts srun or mpirun inside
    // torchrun, and mpirun starts its ranks inside a step but srun none inside mpirun; hence this
    // order. The program's own ranks (--ranks) have torchrun's variables.
    ASSIGN_OR_RETURN(bool found, ReadTorchrun());
    if (!found) {
      ASSIGN_OR_RETURN(found, ReadOpenMpi());
    }
    if (!found) {
      ASSIGN_OR_RETURN(found, ReadMpich());
    }
    if (!found) {
      ASSIGN_OR_RETURN(found, ReadSrun());
    }
    // If the launcher started one process (a job of one pod, a shell of srun's), --ranks starts
    // ranks as it does without a launcher.
    if (launch_.world == 1 && launch_.rank == 0 && ranks_.value_or(1) > 1) launch_ = Launch();
    RETURN_IF_ERROR(CheckWorldSizeAlone());
    RETURN_IF_ERROR(CheckNumbers());
    RETURN_IF_ERROR(CheckRanksFlag());
    if (launch_.world == 1 || launch_.launcher.empty()) return launch_;
    RETURN_IF_ERROR(FindMaster());
    RETURN_IF_ERROR(ReadSecret());
    return launch_;
  }

 private:
  // The variable's value, nullptr if it is not set.
  const std::string* Find(const std::string& name) const {
    const auto found = environment_.find(name);
    return found == environment_.end() || found->second.empty() ? nullptr : &found->second;
  }
  std::string Text(const std::string& name) const {
    const std::string* value = Find(name);
    return value == nullptr ? "" : *value;
  }
  // `usual` if it is set, otherwise `other`.
  std::string SetOf(const char* usual, const char* other) const {
    return Find(usual) != nullptr ? usual : other;
  }
  // Returns "WORLD_SIZE=2", for messages.
  std::string Shown(const std::string& name) const { return absl::StrCat(name, "=", Text(name)); }

  // Parses the variable into `value`, which is unchanged if the variable is not set.
  absl::Status Number(const std::string& name, int low, int high, int* value) const {
    const std::string* text = Find(name);
    if (text == nullptr) return absl::OkStatus();
    int parsed = 0;
    if (absl::SimpleAtoi(*text, &parsed) && parsed >= low && parsed <= high) {
      *value = parsed;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat(Shown(name), " in the environment should be a whole number from ", low, " to ",
                     high, ": correct it, or unset it and let the launcher set it"));
  }

  absl::Status RankAndWorld(const std::string& rank, const std::string& world) {
    RETURN_IF_ERROR(Number(rank, 0, kMostRanks - 1, &launch_.rank));
    RETURN_IF_ERROR(Number(world, 1, kMostRanks, &launch_.world));
    rank_variable_ = rank;
    launch_.world_variable = world;
    return absl::OkStatus();
  }
  absl::Status Local(const std::string& rank, const std::string& world) {
    RETURN_IF_ERROR(Number(rank, 0, kMostRanks - 1, &launch_.local_rank));
    RETURN_IF_ERROR(Number(world, 1, kMostRanks, &launch_.local_world));
    local_rank_variable_ = rank;
    return absl::OkStatus();
  }

  // Reads RANK and WORLD_SIZE, which torchrun, our own spawner, a pod or a person may have set.
  absl::StatusOr<bool> ReadTorchrun() {
    if (Find("RANK") == nullptr) return false;
    if (Find("WORLD_SIZE") == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(Shown("RANK"),
                       " is set and WORLD_SIZE is not: set WORLD_SIZE to the number "
                       "of ranks, or unset RANK for one"));
    }
    RETURN_IF_ERROR(RankAndWorld("RANK", "WORLD_SIZE"));
    RETURN_IF_ERROR(Number("GROUP_RANK", 0, kMostRanks - 1, &launch_.node_rank));
    if (Find("LOCAL_RANK") != nullptr) {
      if (Find("LOCAL_WORLD_SIZE") == nullptr) RETURN_IF_ERROR(FindRanksHere());
      RETURN_IF_ERROR(Local("LOCAL_RANK", "LOCAL_WORLD_SIZE"));
    } else if (OnThisMachine(Text("MASTER_ADDR"))) {
      launch_.local_rank = launch_.rank;
      launch_.local_world = launch_.world;
    }  // Otherwise one rank a machine, as Kubernetes' training operators start them.
    if (Text(kLauncherVariable) == kSpawnedLauncher) {
      launch_.launcher = "--ranks";
      if (launch_.rank == 0 && Find(kSocketVariable) != nullptr) {
        RETURN_IF_ERROR(Number(kSocketVariable, 3, kMostDescriptors, &launch_.master_socket));
      }
      return true;
    }
    if (Find("TORCHELASTIC_RUN_ID") == nullptr) {
      launch_.launcher = "RANK";
      RETURN_IF_ERROR(CheckSameRank("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"));
      RETURN_IF_ERROR(CheckSameRank("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"));
      if (RanksAreTasks()) RETURN_IF_ERROR(ReadOwnCores());
      return true;
    }
    launch_.launcher = "torchrun";
    launch_.job_id = Text("TORCHELASTIC_RUN_ID");
    launch_.agent_store = absl::EqualsIgnoreCase(Text("TORCHELASTIC_USE_AGENT_STORE"), "true");
    RETURN_IF_ERROR(Number("TORCHELASTIC_RESTART_COUNT", 0, kMostRanks, &launch_.restart));
    return true;
  }

  // RANK exported by a batch script outside of srun has the same value in every rank.
  absl::Status CheckSameRank(const std::string& rank, const std::string& world) const {
    if (Find(rank) == nullptr || Text(world) != Text("WORLD_SIZE") || Text(rank) == Text("RANK")) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        Shown("RANK"), " and ", Shown(rank), " contradict each other, of ", Text("WORLD_SIZE"),
        " ranks both: unset RANK and WORLD_SIZE, the launcher's ", "own variables say enough"));
  }

  // Handles LOCAL_RANK without LOCAL_WORLD_SIZE: DeepSpeed sets LOCAL_SIZE instead, and scripts
  // take LOCAL_RANK from the launcher. Without any of them there is one machine.
  absl::Status FindRanksHere() {
    launch_.local_world = launch_.world;
    if (RanksAreTasks()) RETURN_IF_ERROR(ReadTasksOfNode());
    if (Text("OMPI_COMM_WORLD_SIZE") == Text("WORLD_SIZE")) {
      RETURN_IF_ERROR(Number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMostRanks, &launch_.local_world));
    }
    return Number("LOCAL_SIZE", 1, kMostRanks, &launch_.local_world);
  }

  static bool OnThisMachine(absl::string_view address) {
    return address == "localhost" || address == "::1" || absl::StartsWith(address, "127.");
  }

  absl::StatusOr<bool> ReadOpenMpi() {
    if (Find("OMPI_COMM_WORLD_RANK") == nullptr || Find("OMPI_COMM_WORLD_SIZE") == nullptr) {
      return false;
    }
    RETURN_IF_ERROR(RankAndWorld("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"));
    RETURN_IF_ERROR(Local("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"));
    launch_.launcher = "mpirun";
    launch_.job_id = Text("OMPI_MCA_ess_base_jobid");  // Open MPI 4; later versions set it by PMIx
    if (launch_.job_id.empty()) launch_.job_id = Text("PMIX_NAMESPACE");
    return true;
  }

  // Reads the variables of MPICH's and Intel's mpiexec. srun --mpi=pmi2 sets PMI_RANK as well, but
  // no local ranks, and is recognized by that.
  absl::StatusOr<bool> ReadMpich() {
    if (Find("PMI_RANK") == nullptr || Find("PMI_SIZE") == nullptr) return false;
    const bool hydra = Find("MPI_LOCALRANKID") != nullptr;
    const bool cray = Find("PMI_LOCAL_RANK") != nullptr;
    if (!hydra && !cray) {
      if (InStep()) return false;
      int world = 0;
      RETURN_IF_ERROR(Number("PMI_SIZE", 1, kMostRanks, &world));
      if (world > 1) {
        return absl::InvalidArgumentError(absl::StrCat(
            Shown("PMI_SIZE"),
            " is set and MPI_LOCALRANKID is not, so that this rank's number on "
            "its machine is not known: start it with MPICH's mpiexec.hydra, Open MPI's mpirun, "
            "torchrun or srun"));
      }
    }
    RETURN_IF_ERROR(RankAndWorld("PMI_RANK", "PMI_SIZE"));
    RETURN_IF_ERROR(hydra ? Local("MPI_LOCALRANKID", "MPI_LOCALNRANKS")
                          : Local("PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"));
    launch_.launcher = "mpiexec";
    launch_.job_id = Text("PMI_JOBID");
    return true;
  }

  // SLURM_PROCID and SLURM_NTASKS are also set in a batch script, which runs once: the number of
  // the step tells whether srun started this process.
  bool InStep() const {
    uint32_t number = 0;
    return Find("SLURM_PROCID") != nullptr && absl::SimpleAtoi(Step(), &number) &&
           number < kFirstSpecialStep;
  }

  std::string Step() const { return Text(SetOf("SLURM_STEP_ID", "SLURM_STEPID")); }
  std::string TasksVariable() const { return SetOf("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"); }
  // Whether RANK and WORLD_SIZE describe the tasks of a SLURM step.
  bool RanksAreTasks() const { return InStep() && Text(TasksVariable()) == Text("WORLD_SIZE"); }

  // REQUIRES: InStep().
  absl::Status ReadTasksOfNode() {
    const char* tasks_variable = "SLURM_STEP_TASKS_PER_NODE";
    const std::string* tasks = Find(tasks_variable);
    if (tasks == nullptr) return absl::OkStatus();
    const auto counts = ExpandTasksPerNode(*tasks);
    if (!counts.ok()) return Annotate(counts.status(), tasks_variable);
    int node = 0;
    RETURN_IF_ERROR(Number("SLURM_NODEID", 0, kMostRanks - 1, &node));
    if (static_cast<size_t>(node) >= counts->size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Shown("SLURM_NODEID"), " is no node of ", Shown(tasks_variable)));
    }
    launch_.local_world = (*counts)[node];
    return absl::OkStatus();
  }
  absl::Status ReadOwnCores() {
    return Number("SLURM_CPUS_PER_TASK", 1, kMostRanks, &launch_.own_cores);
  }

  absl::StatusOr<bool> ReadSrun() {
    // `srun --pty bash` gives a terminal to the first task, in which a person works, whatever the
    // number of tasks.
    if (!InStep() || Find("SLURM_PTY_PORT") != nullptr) return false;
    const std::string world = TasksVariable();
    RETURN_IF_ERROR(RankAndWorld("SLURM_PROCID", world));
    RETURN_IF_ERROR(Local("SLURM_LOCALID", ""));
    RETURN_IF_ERROR(Number("SLURM_NODEID", 0, kMostRanks - 1, &launch_.node_rank));
    launch_.launcher = "srun";
    // The step is part of the id because steps of one job may run at the same time.
    launch_.job_id = absl::StrCat(Text(SetOf("SLURM_JOB_ID", "SLURM_JOBID")), ".", Step());
    launch_.local_world = launch_.world;  // one machine, unless SLURM says otherwise
    RETURN_IF_ERROR(ReadTasksOfNode());
    RETURN_IF_ERROR(ReadOwnCores());
    return true;
  }

  // Handles WORLD_SIZE without RANK, which may be exported for others to read. Several ranks that
  // each consider themselves the only one would write the same files.
  absl::Status CheckWorldSizeAlone() const {
    if (Find("WORLD_SIZE") == nullptr || Find("RANK") != nullptr) return absl::OkStatus();
    int world = 0;
    RETURN_IF_ERROR(Number("WORLD_SIZE", 1, kMostRanks, &world));
    const int known = launch_.launcher.empty() ? ranks_.value_or(1) : launch_.world;
    if (world == known) return absl::OkStatus();
    if (!launch_.launcher.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Shown("WORLD_SIZE"), " contradicts ", launch_.launcher, "'s ",
                       Shown(launch_.world_variable), ": unset WORLD_SIZE, or make them the same"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(Shown("WORLD_SIZE"),
                     " is set and RANK is not: start the ranks with torchrun, "
                     "srun, mpirun or --ranks ",
                     world, ", or unset WORLD_SIZE for one rank"));
  }

  absl::Status CheckNumbers() const {
    if (launch_.rank >= launch_.world) {
      return absl::InvalidArgumentError(absl::StrCat(
          Shown(rank_variable_), " is no rank of ", Shown(launch_.world_variable),
          ", which has 0 to ", launch_.world - 1, ": correct them, or leave them to the launcher"));
    }
    if (launch_.local_rank >= launch_.local_world || launch_.local_world > launch_.world) {
      return absl::InvalidArgumentError(absl::StrCat(
          launch_.launcher, " says that this is local rank ", launch_.local_rank, " of ",
          launch_.local_world, " on this machine (", Shown(local_rank_variable_), "), and ",
          launch_.world, " in all (", Shown(launch_.world_variable),
          "), which cannot be: correct them, or leave them to the launcher"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckRanksFlag() {
    if (!ranks_) return absl::OkStatus();
    if (launch_.launcher.empty()) {
      launch_.world = *ranks_;
      launch_.local_world = *ranks_;
      return absl::OkStatus();
    }
    if (*ranks_ == launch_.world) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "--ranks ", *ranks_, " contradicts ", launch_.launcher, ", which has started ",
        launch_.world, launch_.world == 1 ? " rank (" : " ranks (", Shown(launch_.world_variable),
        "): leave --ranks out, or start ", *ranks_, " with the launcher"));
  }

  absl::Status FindMaster() {
    RETURN_IF_ERROR(Number("MASTER_PORT", 1, 65535, &launch_.master_port));
    launch_.master_address = Text("MASTER_ADDR");
    if (launch_.master_address.empty()) {
      RETURN_IF_ERROR(DeriveAddress());
    }
    if (launch_.master_port != 0) return absl::OkStatus();
    if (!launch_.job_id.empty() && launch_.launcher != "torchrun") {
      launch_.master_port = PortOfJob(launch_.job_id);
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat(Shown(launch_.world_variable),
                     " is set and MASTER_PORT is not: set it to the same free "
                     "port (",
                     HowToExport("MASTER_PORT", "29500"), ") for all ranks"));
  }

  absl::Status DeriveAddress() {
    if (launch_.launcher == "srun") {
      const std::string list = SetOf("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
      if (Find(list) != nullptr) {
        const auto hosts = ExpandNodeList(Text(list));
        if (!hosts.ok()) return Annotate(hosts.status(), list);
        launch_.master_address = hosts->front();
        return absl::OkStatus();
      }
    }
    if (launch_.local_world == launch_.world &&
        (launch_.launcher == "mpirun" || launch_.launcher == "mpiexec")) {
      launch_.master_address = "127.0.0.1";
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat(Shown(launch_.world_variable),
                     " is set and MASTER_ADDR is not: set it to the host of rank "
                     "0 (",
                     HowToExport("MASTER_ADDR", "HOST"), ") for all ranks"));
  }

  absl::Status ReadSecret() {
    launch_.secret = Text(kSecretVariable);
    if (launch_.secret.empty() || launch_.secret.size() >= kLeastSecretBytes) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        kSecretVariable, " has ", launch_.secret.size(), " characters, and needs at least ",
        kLeastSecretBytes,
        ", or it could be guessed: take what `openssl rand -hex 32` prints, the same for all "
        "ranks"));
  }

  // How a user of this launcher sets a variable for all ranks.
  std::string HowToExport(absl::string_view name, absl::string_view value) const {
    if (launch_.launcher == "mpirun") return absl::StrCat("mpirun -x ", name, "=", value, " ...");
    if (launch_.launcher == "mpiexec") {
      return absl::StrCat("mpiexec -genv ", name, " ", value, " ...");
    }
    return absl::StrCat("export ", name, "=", value);
  }

  const EnvironmentMap& environment_;
  const std::optional<int> ranks_;
  Launch launch_;
  std::string rank_variable_, local_rank_variable_;
};

}  // namespace

int Launch::default_threads(int usable_cores) const {
  if (own_cores > 0) return std::min(own_cores, usable_cores);
  return std::max(1, usable_cores / local_world);
}

absl::StatusOr<Launch> ReadLaunch(const EnvironmentMap& environment, std::optional<int> ranks) {
  return LaunchReader(environment, ranks).Read();
}

void SetLocalVariables(const Launch& launch) {
  if (launch.launcher.empty()) return;
  setenv("LOCAL_RANK", absl::StrCat(launch.local_rank).c_str(), 1);
  setenv("LOCAL_WORLD_SIZE", absl::StrCat(launch.local_world).c_str(), 1);
}

EnvironmentMap ThisEnvironment() {
  EnvironmentMap environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string NewRankSecret() { return absl::BytesToHexString(UnforeseeableBytes(32)); }

int PortOfJob(absl::string_view job_id) {
  const uint64_t digest = Checksum(job_id.data(), job_id.size());
  return kLowestPort + static_cast<int>(digest % (kHighestPort - kLowestPort + 1));
}

}  // namespace spillway
