// How fast storage is through the I/O engine, as training uses it: `spillway bench io`.
//
// Everything runs on the calling thread, which is the engine's owner. The files are
// preallocated, written once before anything is measured (the first write to reserved
// space costs more), and have no name: they are gone however the process ends.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/machine/latency_histogram.h"
#include "io/io_engine.h"

namespace spillway {

enum class IoBenchOp {
  kRead,   // in order, as prefetch
  kWrite,  // in order, as write-back
  kMixed,  // as many reads as writes
  // One read at a time of a random block as demand: alone, then under full write-back.
  kDemand,
};

struct IoBenchOptions {
  // Blocks are dealt to them in turn, a file in each.
  std::vector<std::string> directories;
  IoBenchOp op = IoBenchOp::kRead;
  // Of the files together.
  uint64_t size_bytes = uint64_t{4} << 30;
  // Of each measurement; 0: once over the files (kDemand: 3 seconds).
  double seconds = 0;
  // Checksums are computed of what is written and checked for what is read.
  bool verify = false;
  // Looked at before each block is started, also of the first writing; may be empty. True ends
  // it with kCancelled.
  std::function<bool()> stopped = {};
  // Registers the files and the one buffer: a quarter more blocks than `depth`.
  IoEngineOptions io;
};

// What one measurement moved, from its first submission to its last completion.
struct IoBenchPhase {
  double seconds = 0;
  double cpu_seconds = 0;  // of the whole process, user and system
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  // Of blocks, from Submit to the callback; of the demand reads where there are some.
  LatencySummary latency;

  double BytesPerSecond() const;
};

struct IoBenchResult {
  std::string engine;
  IoFeatures features;
  bool direct = true;  // false: a path has no direct I/O, and the page cache was measured
  uint64_t size_bytes = 0;
  // The answer; for kDemand, demand reads under full write-back.
  IoBenchPhase main;

  // kDemand only: the reads alone, and the write-back alone.
  IoBenchPhase unloaded;
  IoBenchPhase writes;
  // p99 unloaded + the time in which the write-back alone drains its window.
  double bound_seconds = 0;
};

// kInvalidArgument for impossible options, kResourceExhausted where the files do not fit,
// kDataLoss where `verify` finds other bytes than were written.
absl::StatusOr<IoBenchResult> RunIoBench(const IoBenchOptions& options);

}  // namespace spillway
