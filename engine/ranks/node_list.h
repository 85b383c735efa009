// Parses SLURM's short forms of host names and of the number of tasks per host. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

// "node[01-03,07],gpu5" is node01, node02, node03, node07, gpu5. A name may have several brackets,
// and numbers keep their leading zeros. kInvalidArgument, without the variable's name, for an
// invalid list, more than 65536 hosts, or a name longer than 255 bytes.
absl::StatusOr<std::vector<std::string>> ExpandNodeList(absl::string_view list);

// "2(x3),1" is 2, 2, 2, 1 (SLURM_STEP_TASKS_PER_NODE). Errors as above.
absl::StatusOr<std::vector<int>> ExpandTasksPerNode(absl::string_view list);

}  // namespace spillway
