// Measures the rates that the mover and its workers can sustain, independent of the disk: steps
// with real tiles on a disk that completes at once. They tell which drives and cores saturate it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace spillway {

struct NullBenchOptions {
  int workers = 2;
  int layers = 24;
  uint64_t layer_parameters = 7 << 20;
  uint64_t tile_parameters = 256 << 10;
  double seconds = 10;            // approximate duration
  std::function<bool()> stopped;  // checked before each step; may be empty
};

struct NullBenchResult {
  struct Range {
    double median = 0, least = 0, most = 0;
  };
  // Bytes read and written a second, over rounds in which each is measured once.
  struct Rates {
    Range worker;                       // of one busy worker: checksums, or handing over alone
    Range mover;                        // with a processor of its own
    Range all;                          // by the wall clock, on the cores that exist
    double mover_seconds_per_tile = 0;  // over all of a tile's stages in a step
  };
  NullBenchOptions options;
  uint64_t tile_bytes = 0;
  uint64_t moved_bytes_per_step = 0;
  Rates with_checksums, without_checksums;
};

// kCancelled when stopped. Takes about 200 MiB of memory with the default options.
absl::StatusOr<NullBenchResult> RunNullBench(const NullBenchOptions& options);

// Text of at most 80 columns.
std::string NullBenchText(const NullBenchResult& result);
nlohmann::json NullBenchJson(const NullBenchResult& result);

}  // namespace spillway
