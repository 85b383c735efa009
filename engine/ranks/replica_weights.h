// The first weights of a shard that several ranks have: each of these replicas reads an equal
// part from the model's files, and sends it to the others, so that all of them together read
// every byte once, and none has more of it in memory than it is given.
//
// The shard passes by in rounds, unit after unit:
//
//   shard:     | round 0               | round 1               | ...    replicas: 3
//   read by    |   0   |   1   |   2   |   0   |   1   |   2   |
//
// Two rounds are in memory: one is read and sent while another is taken.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/ranks/collectives.h"
#include "engine/ranks/shard_grid.h"
#include "io/base/mutex.h"
#include "swap/plan/state_layout.h"

namespace spillway {

class ReplicaWeights {
 public:
  // Reads parameters [begin, begin + count) of this rank's shard of a unit as fp32. From one
  // thread at a time.
  using Read = std::function<absl::Status(int unit, uint64_t begin, uint64_t count, float* out)>;
  // Is given them. From several threads.
  using Take = std::function<absl::Status(uint64_t begin, uint64_t count, const float* values)>;

  // At most so many parameters are read at once: 1 MiB, so that disks read in long runs.
  static constexpr uint64_t kMostPartParameters = 256 * 1024;

  // `layout`: of the shard that `grid` names. `replicas`: the ranks that have it; nobody else
  // talks to them meanwhile. `memory`: the same on every rank, at least 8 bytes for each of them.
  // `replicas` and `memory` outlive it.
  ReplicaWeights(const StateLayout& layout, const ShardGrid& grid, Collectives* replicas,
                 char* memory, uint64_t memory_bytes, Read read);

  // Calls `take` with all of [begin, begin + count) of a unit's shard, in order and in pieces.
  // Any thread; waits for other stretches and other ranks. Each stretch is asked for once, and
  // begun in order (units, and in each from its begin): then whatever this waits for is on its
  // way. Errors: what `read` or `take` say, here or BecauseOf another rank; those of Collectives.
  // After one no call succeeds.
  absl::Status TakeStretch(int unit, uint64_t begin, uint64_t count, const Take& take);

  // Where this rank ends before all has been taken: the others end, too. Nobody is in TakeStretch.
  void Stop(const absl::Status& status);

 private:
  struct Round {
    int unit = 0;
    uint64_t begin = 0;
    uint64_t count = 0;
  };

  Round RoundAt(uint64_t number) const;
  float* MemoryOf(uint64_t number) const { return memory_ + number % 2 * round_parameters_; }
  // Until a round is in memory; makes it so where it is the next and nobody is at it.
  absl::Status AwaitRound(uint64_t number);
  absl::Status Bring(uint64_t number);
  // What all say of a round before its values are sent.
  absl::Status AgreeOnRound(const absl::Status& own);
  absl::Status Fail(const absl::Status& status);

  const ShardGrid grid_;
  Collectives* const replicas_;
  float* const memory_;
  const uint64_t part_parameters_;
  const uint64_t round_parameters_;  // a part for every replica
  const Read read_;
  std::vector<uint64_t> unit_parameters_;  // of the shard
  std::vector<uint64_t> first_round_;      // of each unit, and the number of rounds

  Mutex mutex_;
  CondVar changed_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  uint64_t brought_ ABSL_GUARDED_BY(mutex_) = 0;   // rounds, so far
  bool bringing_ ABSL_GUARDED_BY(mutex_) = false;  // the next
  uint64_t left_[2] ABSL_GUARDED_BY(mutex_) = {};  // parameters of a round to be taken
  bool parted_ = false;  // others listen no more, or nobody expects to; of whoever brings
};

}  // namespace spillway
