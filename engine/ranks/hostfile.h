// --hostfile: DeepSpeed's list of machines, as the mpirun command that starts a rank in each of
// their slots. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ranks/launch_environment.h"

namespace spillway {

struct HostSlots {
  std::string host;
  int slots = 0;
};

// Lines "HOST slots=N"; what follows a # is a comment, and Open MPI's max_slots=M (max-slots) is
// passed over. kInvalidArgument, "FILE:LINE: ...", for a line that is neither, a host that is there
// twice (both lines), and a file without hosts.
absl::StatusOr<std::vector<HostSlots>> ParseHostfile(absl::string_view text,
                                                     absl::string_view file);

// {"mpirun", "-n", "4", "--host", "a:2,b:2", ..., the program and its arguments} in Open MPI's
// words. `command`: argv of this program, from which --hostfile, --launch and --ranks are taken
// out; `ranks`: --ranks, by default all slots. MASTER_ADDR and MASTER_PORT of `environment` are
// passed on; without them the first host (of user@host), and DeepSpeed's port. Where it has
// SPILLWAY_SECRET, mpirun passes that on, too. kInvalidArgument
// where there are more ranks than slots.
absl::StatusOr<std::vector<std::string>> MpirunCommand(const std::vector<HostSlots>& hosts,
                                                       const std::vector<std::string>& command,
                                                       std::optional<int> ranks,
                                                       const EnvironmentMap& environment);

}  // namespace spillway
