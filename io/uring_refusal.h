// Explains why the kernel refuses io_uring, with the remedy.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace spillway {

// The status for an error of io_uring's system calls. kernel.io_uring_disabled is -1 if the kernel
// lacks that setting; memlock is the soft RLIMIT_MEMLOCK. Pure.
absl::Status UringRefused(int error, int io_uring_disabled, uint64_t memlock_bytes);

// UringRefused with this machine's settings.
absl::Status UringRefusedHere(int error);

// Why one feature of a ring (registered memory of `size_bytes`, a polling mode) is refused, and the
// remedy, as part of a sentence: "ENOMEM: ...".
std::string UringFeatureRefused(int error, uint64_t size_bytes, uint64_t memlock_bytes);
std::string UringFeatureRefusedHere(int error, uint64_t size_bytes);

}  // namespace spillway
