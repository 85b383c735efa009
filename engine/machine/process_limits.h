// What the system gives a process beside memory: addresses (`ulimit -v`) and threads (`ulimit -u`,
// a container's limit). LibTorch does not ask whether it gets them: refused an address it crashes,
// and for a thread that was not started it waits for ever, deaf to signals. So they are asked for
// before it takes them.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace spillway {

// Addresses that may still be mapped; UINT64_MAX where RLIMIT_AS limits nothing.
uint64_t SpareAddressBytes();

// Before the library that computes is loaded, with LibTorch's: kFailedPrecondition, with the limit
// and what it should be, where its files and what they set up have no addresses. Where they are
// limited, malloc takes fewer of them from now on.
absl::Status CheckAddressesForLibrary();

// Before LibTorch's threads are started: kFailedPrecondition, with the limit and the remedy, where
// there are no addresses for their stacks and the budgets, or the system does not start as many
// threads as a run has, which this shows by starting them. `budget_bytes`: of device and host,
// where they were given.
absl::Status CheckLimitsForCompute(int compute_threads, uint64_t budget_bytes);

}  // namespace spillway
