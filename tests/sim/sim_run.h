// The run of a seed: a small training run on a simulated disk, with crashes and resumes,
// held against a plain in-memory copy all the way.
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/sim_faults.h"

namespace spillway {

// What the seeds of a range did, all together: a simulation in which nothing happens
// finds nothing.
struct SimTally {
  SimFaultCounts faults = {};
  uint64_t kills = 0;
  uint64_t power_losses = 0;
  uint64_t resumes = 0;
  uint64_t resumes_in_doubt = 0;  // the commit found was the one under way
  uint64_t commits = 0;           // acknowledged
  uint64_t steps = 0;
  uint64_t evaluations = 0;
  uint64_t spilled_gradients = 0;  // lives with some
  uint64_t spilled_inputs = 0;     // likewise
  uint64_t device_lives = 0;       // on a device with memory of its own
  uint64_t streaming_lives = 0;    // ones whose updates pass through it
  uint64_t early_begins = 0;       // programs that began with a part of a unit, the rest undefined
  uint64_t given_up_whole = 0;     // steps, and the state before them was committed
  uint64_t given_up_torn = 0;      // or had changed in part
  uint64_t refusals_reported = 0;  // lives that ended in an error after a refusal
  uint64_t lies_reported = 0;      // the same with wrong bytes
  // [fault] of those the ones of seeds in which it was the only lie
  SimFaultCounts lies_detected = {};

  void Add(const SimTally& other);
};

struct SimResult {
  // Empty: all held. Else what did not, with the faults that were in.
  std::string failure;
  uint64_t trace_hash = 0;
  SimTally tally;
};

// Single-threaded, and the same for the same seed.
SimResult RunSimSeed(uint64_t seed, bool print_trace);

}  // namespace spillway
