// One seed's run of a cluster: ranks that train on one simulated disk with the program's own run
// storage, two-phase commits, copies (--persist), moves and resharding; killed one by one, by a
// power loss all together, resumed by as many ranks or others, and held against a plain in-memory
// copy all the way. docs/TESTING.md.
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/sim_disk.h"

namespace spillway {

// What the seeds of a range did, all together.
struct ClusterTally {
  uint64_t kills = 0;
  uint64_t power_losses = 0;
  uint64_t refusals = 0;
  uint64_t resumes = 0;
  uint64_t resumes_in_doubt = 0;  // of a commit that no rank had acknowledged
  uint64_t resharded = 0;         // by another number of ranks, or other groups
  uint64_t moved = 0;             // to other swap paths
  uint64_t commits = 0;           // of several ranks
  uint64_t single_commits = 0;    // of one
  uint64_t lost = 0;              // of several, by each rank: the run went on without it
  uint64_t copies = 0;            // by a rank of several
  uint64_t single_copies = 0;
  uint64_t resumes_from_copies = 0;  // of several ranks
  uint64_t resumes_from_single_copies = 0;
  uint64_t exports = 0;
  uint64_t overwritten = 0;
  uint64_t parts_waiting = 0;  // lives that ended between the two phases of a commit
  uint64_t parts_lost = 0;
  uint64_t finished = 0;  // lives, by all ranks

  void Add(const ClusterTally& other);
};

struct ClusterResult {
  std::string failure;  // empty: all held
  uint64_t trace_hash = 0;
  ClusterTally tally;
};

// Single-threaded, and the same for the same seed.
ClusterResult RunClusterSeed(uint64_t seed, bool print_trace);

// Three lives of three ranks, of which nothing disturbs the first and the last; in the second a
// rank, or all machines, die at a chosen call.
struct ClusterCrash {
  SimDisk::CrashKind kind = SimDisk::CrashKind::kKill;
  int rank = 0;
  uint64_t call = 0;     // that is no transfer, of the rank's
  bool persist = false;  // commits are copied
};
// *struck: whether the life had so many calls.
ClusterResult RunClusterCrash(uint64_t seed, const ClusterCrash& crash, bool* struck);

}  // namespace spillway
