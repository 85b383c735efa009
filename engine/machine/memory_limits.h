// What the machine, and the cgroup we run in, have to give.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

// Libraries, stacks and what LibTorch keeps to itself: on top of both budgets.
inline constexpr uint64_t kProcessBaseBytes = uint64_t{300} << 20;

// Memory that could be used now without swapping: MemAvailable, or less where a
// memory cgroup or `ulimit -v` says so.
uint64_t AvailableMemoryBytes();

// Of that, what both budgets together get where none is given: less the process base and
// a tenth. `processes` of this machine share it evenly.
uint64_t SpendableMemoryBytes(int processes = 1);

// The tightest memory limit of our cgroups; UINT64_MAX where nothing limits.
uint64_t CgroupMemoryLimitBytes();

// Total memory of this machine or of our cgroup, in bytes; UINT64_MAX if neither is known.
uint64_t MachineMemoryBytes();

// Checks two budgets (0: not given) that both use host memory, in each of `processes` processes.
// Returns an error (exit code 3) if one of them alone leaves nothing for the other. Logs a warning
// if they exceed the machine's memory together, since a run may need less than its budgets.
absl::Status CheckGivenBudgets(uint64_t device_bytes, uint64_t host_bytes, int processes = 1);

// Budgets that were not given (0): what SpendableMemoryBytes says; a third of it for computing, the
// rest for state.
void ChooseBudgets(uint64_t* device_bytes, uint64_t* host_bytes, int processes = 1);

// What reading may take before budgets of so many bytes are in use: they, and what is left of the
// process base. UINT64_MAX where one of them was not given (0).
uint64_t MemoryForReading(uint64_t device_bytes, uint64_t host_bytes);

// Resident memory of this process (VmRSS), and its highest so far (VmHWM).
uint64_t ResidentBytes();
uint64_t PeakResidentBytes();

// A status that ends the program with exit code 3: it does not fit the budgets.
absl::Status DoesNotFitError(absl::string_view message);

// The exit code that belongs to a status: 0, 1, 2, 3 or 4 (INTERFACE).
int ExitCodeOf(const absl::Status& status);

}  // namespace spillway
