// What the mover and its workers keep up with, whatever the disk: steps with real tiles on one that
// completes at once. So a person sees what drives and cores a machine may have before they bind.
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
  double seconds = 10;            // about
  std::function<bool()> stopped;  // looked at before each step; may be empty
};

struct NullBenchResult {
  struct Range {
    double median = 0, least = 0, most = 0;
  };
  // Bytes read and written a second, of rounds in which each is measured once.
  struct Rates {
    Range worker;  // of one, while it is busy: checksums, or nothing but handing over
    Range mover;   // of a processor of its own
    Range all;     // by the clock, on the cores that are there
    double mover_seconds_per_tile = 0;  // on its whole way through a step
  };
  NullBenchOptions options;
  uint64_t tile_bytes = 0;
  uint64_t moved_bytes_per_step = 0;
  Rates with_checksums, without_checksums;
};

// kCancelled when stopped. Takes some 200 MiB of memory with the options as they are.
absl::StatusOr<NullBenchResult> RunNullBench(const NullBenchOptions& options);

// At most 80 columns.
std::string NullBenchText(const NullBenchResult& result);
nlohmann::json NullBenchJson(const NullBenchResult& result);

}  // namespace spillway
