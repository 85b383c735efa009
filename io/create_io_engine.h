// Chooses between io_uring and threads at run time.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/io_engine.h"

namespace spillway {

// kInvalidArgument, with the accepted range, for a size or number out of range.
absl::Status CheckIoEngineOptions(const IoEngineOptions& options);

// Creates the engine that `options` asks for. kAuto tries io_uring and falls
// back to threads; the choice and its reason are one log line. kUring where
// io_uring is refused is an error that names the likely cause (seccomp,
// kernel.io_uring_disabled, memlock) and the remedy.
absl::StatusOr<std::unique_ptr<IoEngine>> CreateIoEngine(const IoEngineOptions& options);

}  // namespace spillway
