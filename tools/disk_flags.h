// The flags of disk measurements: `bench io` and `bench swap`.
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

// Adds --block, --depth, --io-engine and --io-threads, which may have further names; `flags`
// outlives the app.
void AddDiskFlags(CLI::App& command, DiskFlags& flags,
                  const std::string& threads_names = "--io-threads");

struct DiskSettings {
  IoEngineOptions io;
  // The names among "engine", "block", "depth" and "threads" that `spillway tune` found for these
  // paths, as in a run on them; none if there is no valid tuning (the log says why an existing one
  // is not) or all were given.
  std::vector<std::string> tuned;
};

// Values of the flags, else tuned ones, else the defaults of IoEngineOptions.
absl::StatusOr<DiskSettings> ResolveDiskFlags(const DiskFlags& flags,
                                              const std::vector<std::string>& paths);

// The folders that `flag` ("--swap", "--path") names for a measurement: existing, without
// duplicates. {rank} is rank 0's.
absl::StatusOr<std::vector<std::string>> MeasuredPathsFlag(const std::string& flag,
                                                           const std::string& text);

}  // namespace spillway
