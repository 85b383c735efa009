// Why the kernel refuses io_uring, and what to do about it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace spillway {

// From the error of io_uring's system calls, kernel.io_uring_disabled (-1: the
// kernel has no such setting) and the soft RLIMIT_MEMLOCK. Pure.
absl::Status UringRefused(int error, int io_uring_disabled, uint64_t memlock_bytes);

// The same with this machine's settings.
absl::Status UringRefusedHere(int error);

// Why one feature of a ring (registered memory of so many bytes, a way of polling) is not
// to be had, and the remedy, as part of a sentence: "ENOMEM: ...".
std::string UringFeatureRefused(int error, uint64_t size_bytes, uint64_t memlock_bytes);
std::string UringFeatureRefusedHere(int error, uint64_t size_bytes);

}  // namespace spillway
