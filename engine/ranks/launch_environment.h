// How this process was started: its rank, the number of ranks, the launcher, and the address where
// the ranks meet. Only environment variables are read, so that all of it can be tested.
// docs/DISTRIBUTED.md describes it for users.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

using EnvironmentMap = std::map<std::string, std::string>;

struct Launch {
  int rank = 0;
  int world = 1;
  // Rank on this machine; it selects the GPU and the swap path.
  int local_rank = 0;
  int local_world = 1;
  int node_rank = -1;  // number of this machine; -1 if the launcher does not set it
  int own_cores = 0;   // cores that only this rank has; 0: the machine's ranks share all

  // Address where the ranks meet; empty and 0 if there is one rank, or if `to_be_spawned`.
  std::string master_address;
  int master_port = 0;
  // For rank 0: a socket that its parent has bound to that port, so that no other program can take
  // it; -1: none.
  int master_socket = -1;
  // The store of torchrun's agent already listens there: rank 0 is a client of it as well.
  bool agent_store = false;
  // Secret that ranks prove to each other (rank_handshake.h). If empty, any process that reaches
  // their ports can join.
  std::string secret;
  // How often torchrun has restarted these ranks. Its agent's store survives a restart, so keys
  // must not be mixed up with those of another attempt.
  int restart = 0;

  std::string launcher;  // "torchrun", "srun", "mpirun", "mpiexec", "--ranks", "RANK"; empty: none
  std::string job_id;    // the launcher's id; empty if it has none
  // The variable that sets `world`: "WORLD_SIZE". Empty without a launcher.
  std::string world_variable;

  // --ranks without a launcher: this process has to start the ranks (spawn_ranks.h).
  bool to_be_spawned() const { return launcher.empty() && world > 1; }
  // Default number of compute threads. `usable_cores`: the cores of this process.
  int default_threads(int usable_cores) const;
};

// `environment`: the process's variables; empty ones count as not set. `ranks`: --ranks, if given.
// kInvalidArgument if variables contradict each other or one is missing, naming them, their values
// and the remedy.
absl::StatusOr<Launch> ReadLaunch(const EnvironmentMap& environment, std::optional<int> ranks);

// Sets the variables LOCAL_RANK, by which the GPU is chosen, and LOCAL_WORLD_SIZE, which launchers
// may name differently. Does nothing without a launcher. REQUIRES: no other thread reads variables
// meanwhile.
void SetLocalVariables(const Launch& launch);

// The variables of this process. REQUIRES: no other thread changes them meanwhile.
EnvironmentMap ThisEnvironment();

// The port for the ranks of a job, the same on each: 20000 to 32767. Linux assigns ports above that
// range to other programs.
int PortOfJob(absl::string_view job_id);

// Value of SPILLWAY_LAUNCHER in ranks that the program started itself (--ranks).
inline constexpr char kLauncherVariable[] = "SPILLWAY_LAUNCHER";
inline constexpr char kSpawnedLauncher[] = "ranks";
// Variable for rank 0 of those: the number of the descriptor Launch::master_socket.
inline constexpr char kSocketVariable[] = "SPILLWAY_MASTER_SOCKET";
// Variable for Launch::secret. The launcher's user sets it for all ranks; --ranks sets it itself.
inline constexpr char kSecretVariable[] = "SPILLWAY_SECRET";
// Shortest secret allowed: shorter ones could be found by trial from recorded traffic.
inline constexpr size_t kLeastSecretBytes = 16;
// Returns a new random secret, in letters and digits.
std::string NewRankSecret();

}  // namespace spillway
