// Finds out which I/O settings move the most bytes below some paths: engine, block size, depth,
// threads, and what each path does alone (for striping by rate). Takes about as long as it is
// told, moves up to half a terabyte on the fastest drives, and leaves nothing behind.
//
//   1. engines   io_uring, threads of several numbers, and io_uring with IOPOLL and SQPOLL, at the
//                default block and depth
//   2. shapes    block sizes and depths, with the engine that won
//   3. paths     each alone and all together, with what won
//
// What is measured of each: reads alone, writes alone, and as many of both at once, for some
// tens of milliseconds; every candidate once a round, in another order each round. How the
// winner is found is engine/tuning/tune_choice.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/estimate/machine_profile.h"
#include "io/io_engine.h"

namespace spillway {

struct TuneOptions {
  std::vector<std::string> paths;       // existing folders, each once
  double seconds = 60;                  // about
  bool quick = false;                   // fewer candidates and rounds
  uint64_t file_bytes = 1ull << 30;     // of all test files together
  uint64_t buffer_bytes = 64ull << 20;  // most memory in flight; candidates beyond are left out
  // Looked at before each block is started; may be empty. True ends it with kCancelled.
  std::function<bool()> stopped;
  std::function<void(double fraction, const std::string& what)> progress;  // may be empty
};

struct TuneCandidate {
  std::string name;  // "io_uring", "io_uring IOPOLL", "4 threads"; of shapes empty
  IoEngineOptions io;
  DiskRates rates;      // medians over the rounds
  double relative = 0;  // RelativeScores
  bool chosen = false;
};

struct TunePath {
  std::string path;
  BlockDevice device;
  DiskRates rates;  // alone
};

struct TuneResult {
  std::vector<TuneCandidate> engines;
  std::string uring_refusal;  // why io_uring is not among them; "" where it is
  std::vector<TuneCandidate> shapes;
  std::vector<TunePath> paths;
  DiskRates together;
  IoEngineOptions chosen;  // kind is kUring or kThreads
  uint32_t threads = 0;    // best for the thread engine
  double seconds = 0;

  // As the profile keeps it, of a tuning that ended at `unix_seconds`.
  TunedEntry Entry(const MachineIdentity& machine, int64_t unix_seconds) const;
};

// An error names the path that can't be written to, or has no room. On this thread.
absl::StatusOr<TuneResult> Tune(const TuneOptions& options);

// What this machine and these drives take.
struct UringOffers {
  bool uring = false;
  bool iopoll = false, sqpoll = false;
};

// What is tried. Pure.
std::vector<TuneCandidate> EngineCandidates(bool quick, const UringOffers& offers);
std::vector<TuneCandidate> ShapeCandidates(bool quick, const IoEngineOptions& engine,
                                           uint64_t buffer_bytes);

}  // namespace spillway
