// Finds the I/O settings that move the most bytes below some paths: engine, block size, depth and
// threads, and the rate of each path alone (for striping). Takes about the given time, moves up to
// half a terabyte on the fastest drives, and removes its files.
//
//   1. engines   io_uring, threads of several numbers, and io_uring with IOPOLL and SQPOLL, at the
//                default block and depth
//   2. shapes    block sizes and depths, with the engine that won
//   3. paths     each alone and all together, with what won
//
// Each candidate is measured for some tens of milliseconds: reads alone, writes alone, and as many
// of both at once; every candidate once a round, in another order each round. The winner is chosen
// in engine/tuning/tune_choice.h.
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
  std::vector<std::string> paths;       // existing folders, without duplicates
  double seconds = 60;                  // approximate duration
  bool quick = false;                   // fewer candidates and rounds
  uint64_t file_bytes = 1ull << 30;     // of all test files together
  uint64_t buffer_bytes = 64ull << 20;  // most memory in flight; larger candidates are left out
  // Checked before each block is started; may be empty. True ends the tuning with kCancelled.
  std::function<bool()> stopped;
  std::function<void(double fraction, const std::string& what)> progress;  // may be empty
};

struct TuneCandidate {
  std::string name;  // "io_uring", "io_uring IOPOLL", "4 threads"; empty for shapes
  IoEngineOptions io;
  DiskRates rates;      // medians over the rounds
  double relative = 0;  // RelativeScores
  bool chosen = false;
};

struct TunePath {
  std::string path;
  BlockDevice device;
  DiskRates rates;  // of the path alone
};

struct TuneResult {
  std::vector<TuneCandidate> engines;
  std::string uring_refusal;  // why io_uring is not a candidate; "" if it is
  std::vector<TuneCandidate> shapes;
  std::vector<TunePath> paths;
  DiskRates together;
  IoEngineOptions chosen;  // kind is kUring or kThreads
  uint32_t threads = 0;    // best number for the thread engine
  double seconds = 0;

  // The profile's entry for a tuning that ended at `unix_seconds`.
  TunedEntry Entry(const MachineIdentity& machine, int64_t unix_seconds) const;
};

// An error names the path that cannot be written to, or has no room. Runs on the calling thread.
absl::StatusOr<TuneResult> Tune(const TuneOptions& options);

// The io_uring modes that this machine and these drives accept.
struct UringOffers {
  bool uring = false;
  bool iopoll = false, sqpoll = false;
};

// The candidates. Pure.
std::vector<TuneCandidate> EngineCandidates(bool quick, const UringOffers& offers);
std::vector<TuneCandidate> ShapeCandidates(bool quick, const IoEngineOptions& engine,
                                           uint64_t buffer_bytes);

}  // namespace spillway
