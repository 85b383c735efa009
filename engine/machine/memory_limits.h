// Memory limits of the machine and of our cgroup.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

// Libraries, stacks and LibTorch's own memory, on top of both budgets.
inline constexpr uint64_t kProcessBaseBytes = uint64_t{300} << 20;

// Memory that can be used now without swapping: MemAvailable, or less if a memory cgroup or `ulimit
// -v` limits it.
uint64_t AvailableMemoryBytes();

// Default of both budgets together: available memory less the process base and a tenth, divided
// evenly among `processes` of this machine.
uint64_t SpendableMemoryBytes(int processes = 1);

// The lowest memory limit of our cgroups; UINT64_MAX if unlimited.
uint64_t CgroupMemoryLimitBytes();

// Total memory of this machine or of our cgroup, in bytes; UINT64_MAX if neither is known.
uint64_t MachineMemoryBytes();

// Checks two budgets (0: not given) that both use host memory, in each of `processes` processes.
// Returns an error (exit code 3) if one of them alone leaves nothing for the other. Logs a warning
// if they exceed the machine's memory together, since a run may need less than its budgets.
absl::Status CheckGivenBudgets(uint64_t device_bytes, uint64_t host_bytes, int processes = 1);

// Sets budgets that were not given (0) from SpendableMemoryBytes: a third for computing, the rest
// for state.
void ChooseBudgets(uint64_t* device_bytes, uint64_t* host_bytes, int processes = 1);

// Memory that readers may use before the budgets are in use: the budgets and the rest of the
// process base. UINT64_MAX if one of them was not given (0).
uint64_t MemoryForReading(uint64_t device_bytes, uint64_t host_bytes);

// Resident memory of this process (VmRSS), and its highest so far (VmHWM).
uint64_t ResidentBytes();
uint64_t PeakResidentBytes();

// A status that ends the program with exit code 3: it does not fit the budgets.
absl::Status DoesNotFitError(absl::string_view message);

// The exit code that belongs to a status: 0, 1, 2, 3 or 4 (INTERFACE).
int ExitCodeOf(const absl::Status& status);

}  // namespace spillway
