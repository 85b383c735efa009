// Measures storage through the I/O engine, as training uses it: `spillway bench io`.
//
// Everything runs on the calling thread, which is the engine's owner. The files are
// preallocated, written once before anything is measured (the first write to reserved
// space costs more), and have no name: they are gone however the process ends.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "engine/machine/io_bench_bed.h"
#include "engine/machine/latency_histogram.h"

namespace spillway {

// One measurement, from its first submission to its last completion.
struct IoBenchPhase {
  double seconds = 0;
  double cpu_seconds = 0;  // of the whole process, user and system
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  // Latency of blocks, from Submit to the callback; of demand reads only if there are any.
  LatencySummary latency;

  double BytesPerSecond() const;
};

struct IoBenchResult {
  std::string engine;
  IoFeatures features;
  bool direct = true;  // false: a path has no direct I/O, so the page cache was measured
  uint64_t size_bytes = 0;
  // The result; for kDemand, demand reads under full write-back.
  IoBenchPhase main;

  // kDemand only: the reads alone, and the write-back alone.
  IoBenchPhase unloaded;
  IoBenchPhase writes;
  // p99 unloaded + the time in which the write-back alone drains its window
  double bound_seconds = 0;
};

// kInvalidArgument for impossible options, kResourceExhausted if the files do not fit, kDataLoss if
// `verify` finds wrong bytes.
absl::StatusOr<IoBenchResult> RunIoBench(const IoBenchOptions& options);

}  // namespace spillway
