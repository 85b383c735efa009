// How this process was started: as which of how many ranks, by which launcher, and where the
// ranks meet. Launchers say it in environment variables; nothing else is looked at, so that
// all of it can be tested. docs/DISTRIBUTED.md says it for users.
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
  // Of this machine: which GPU, which swap path.
  int local_rank = 0;
  int local_world = 1;
  int node_rank = -1;  // this machine's number; -1 where the launcher does not say
  int own_cores = 0;   // that the launcher gives this rank alone; 0: the machine's ranks share all

  // Where the ranks meet; empty and 0 where there is one rank, or where `to_be_spawned`.
  std::string master_address;
  int master_port = 0;
  // Of rank 0, from who has started it: a socket that is bound to that port already, so that nobody
  // else can have it; -1: none.
  int master_socket = -1;
  // A store listens there already, that of torchrun's agent: rank 0 is a client of it as well.
  bool agent_store = false;
  // What ranks prove to know before others listen to them (rank_handshake.h); empty: the ranks have
  // none, and whoever reaches their ports can be one.
  std::string secret;
  // How often torchrun has started these ranks again. Its agent's store outlives them: keys of
  // another attempt must not be taken for this one's.
  int restart = 0;

  std::string launcher;  // "torchrun", "srun", "mpirun", "mpiexec", "--ranks", "RANK"; empty: none
  std::string job_id;    // as the launcher has it; empty where it has none
  // Which variable says `world`: "WORLD_SIZE". Empty without a launcher.
  std::string world_variable;

  // --ranks without a launcher: this process has to start the ranks (spawn_ranks.h).
  bool to_be_spawned() const { return launcher.empty() && world > 1; }
  // Compute threads where none are asked for. `usable_cores`: of this process.
  int default_threads(int usable_cores) const;
};

// `environment`: the process's variables, of which empty ones count as not set; `ranks`: --ranks,
// where it was given. kInvalidArgument where they contradict each other or leave something out,
// naming the variables, their values and what to do.
absl::StatusOr<Launch> ReadLaunch(const EnvironmentMap& environment, std::optional<int> ranks);

// Tells this process of its place on the machine, as a launcher may say it by other names:
// LOCAL_RANK, by which the GPU is chosen, and LOCAL_WORLD_SIZE. Nothing without a launcher. Not
// while another thread reads variables.
void SetLocalVariables(const Launch& launch);

// The variables of this process. Not while another thread changes them.
EnvironmentMap ThisEnvironment();

// A port for the ranks of a job, the same on each: 20000 to 32767. Above it Linux hands out ports
// by itself, and one of those could be taken by anybody.
int PortOfJob(absl::string_view job_id);

// What SPILLWAY_LAUNCHER says to ranks that the program started itself (--ranks).
inline constexpr char kLauncherVariable[] = "SPILLWAY_LAUNCHER";
inline constexpr char kSpawnedLauncher[] = "ranks";
// And to rank 0 of them: the number of the descriptor that is Launch::master_socket.
inline constexpr char kSocketVariable[] = "SPILLWAY_MASTER_SOCKET";
// Launch::secret: whoever starts the ranks sets it for all of them, and --ranks does so itself.
inline constexpr char kSecretVariable[] = "SPILLWAY_SECRET";
// A shorter one could be found by trying, from what is seen on the network.
inline constexpr size_t kLeastSecretBytes = 16;
// Such a secret, in letters and digits.
std::string NewRankSecret();

}  // namespace spillway
