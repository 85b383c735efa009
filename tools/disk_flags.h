// The flags of measurements of the disk: `bench io` and `bench swap`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "io/io_engine.h"

namespace spillway {

struct DiskFlags {
  std::optional<std::string> block, depth, io_engine, io_threads;
  bool poll = false, sqpoll = false;
};

// --block, --depth, --io-engine and --io-threads; `flags` outlives the app.
void AddDiskFlags(CLI::App& command, DiskFlags& flags);

struct DiskSettings {
  IoEngineOptions io;
  // Which of "engine", "block", "depth" and "threads" are what `spillway tune` found for these
  // paths, as a run on them has it; none where there is no tuning that counts (the log says why
  // not, where there is one) or all were given.
  std::vector<std::string> tuned;
};

// What the flags say, else what was tuned, else IoEngineOptions' own.
absl::StatusOr<DiskSettings> ResolveDiskFlags(const DiskFlags& flags,
                                              const std::vector<std::string>& paths);

// The folders that `flag` ("--swap", "--path") names for a measurement: each there, and once.
// {rank} is rank 0's.
absl::StatusOr<std::vector<std::string>> MeasuredPathsFlag(const std::string& flag,
                                                           const std::string& text);

}  // namespace spillway
