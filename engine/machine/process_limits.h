// Checks limits of a process besides memory: address space (`ulimit -v`) and threads (`ulimit -u`,
// a container's limit). LibTorch does not handle these: without addresses it crashes, and without a
// thread it waits for ever and ignores signals. So the limits are checked before LibTorch needs
// them.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace spillway {

// Address space that may still be mapped; UINT64_MAX if RLIMIT_AS is unlimited.
uint64_t SpareAddressBytes();

// Call before the compute library and LibTorch are loaded. kFailedPrecondition, with the limit and
// the required value, if address space does not suffice for loading them. If it is limited, malloc
// reserves less of it from now on.
absl::Status CheckAddressesForLibrary();

// Call before LibTorch starts threads. kFailedPrecondition, with the limit and the remedy, if
// address space does not suffice for stacks and budgets, or the system refuses the run's number of
// threads, which is tested by starting them. `budget_bytes`: both budgets, if given.
absl::Status CheckLimitsForCompute(int compute_threads, uint64_t budget_bytes);

}  // namespace spillway
