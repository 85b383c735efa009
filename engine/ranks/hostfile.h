// --hostfile: translates DeepSpeed's list of machines to the mpirun command that starts a rank in
// each of their slots. Pure functions.
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

// Parses lines "HOST slots=N". Text after a # is a comment, and Open MPI's max_slots=M (max-slots)
// is ignored. kInvalidArgument, "FILE:LINE: ...", for any other line, a host that stands there
// twice (naming both lines), and a file without hosts.
absl::StatusOr<std::vector<HostSlots>> ParseHostfile(absl::string_view text,
                                                     absl::string_view file);

// Returns Open MPI's command line {"mpirun", "-n", "4", "--host", "a:2,b:2", ..., the program and
// its arguments}. `command`: argv of this program, without --hostfile, --launch and --ranks;
// `ranks`: --ranks, by default all slots. MASTER_ADDR and MASTER_PORT of `environment` are passed
// on; the defaults are the first host (of user@host) and DeepSpeed's port. SPILLWAY_SECRET is
// passed on if set. kInvalidArgument if there are more ranks than slots.
absl::StatusOr<std::vector<std::string>> MpirunCommand(const std::vector<HostSlots>& hosts,
                                                       const std::vector<std::string>& command,
                                                       std::optional<int> ranks,
                                                       const EnvironmentMap& environment);

}  // namespace spillway
