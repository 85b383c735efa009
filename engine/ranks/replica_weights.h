// Reads the first weights of a shard that several ranks have. Each of these replicas reads an equal
// part from the model's files and sends it to the others, so that together they read every byte
// once, each within a given amount of memory.
//
// The shard is read in rounds, unit after unit:
//
//   shard:     | round 0               | round 1               | ...    replicas: 3
//   read by    |   0   |   1   |   2   |   0   |   1   |   2   |
//
// Two rounds are in memory: one is read and sent while the other is taken.
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
  // Reads parameters [begin, begin + count) of this rank's shard of a unit as fp32. Called from one
  // thread at a time.
  using Read = std::function<absl::Status(int unit, uint64_t begin, uint64_t count, float* out)>;
  // Receives those values. Called from several threads.
  using Take = std::function<absl::Status(uint64_t begin, uint64_t count, const float* values)>;

  // Largest number of parameters read at once: 1 MiB, so that disk reads are long.
  static constexpr uint64_t kMostPartParameters = 256 * 1024;

  // `layout`: of the shard that `grid` names. `replicas`: the ranks that have it; nobody else uses
  // this conversation meanwhile. `memory`: the same size on every rank, at least 8 bytes for each
  // of them. `replicas` and `memory` outlive the object.
  ReplicaWeights(const StateLayout& layout, const ShardGrid& grid, Collectives* replicas,
                 char* memory, uint64_t memory_bytes, Read read);

  // Calls `take` with all of [begin, begin + count) of a unit's shard, in order and in pieces. Any
  // thread; waits for other stretches and other ranks. REQUIRES: each stretch is asked for once,
  // and begun in order (by unit, then by its start), so that no wait can be circular. Errors: those
  // of `read` or `take`, here or BecauseOf another rank; those of Collectives. After an error every
  // call fails.
  absl::Status TakeStretch(int unit, uint64_t begin, uint64_t count, const Take& take);

  // Ends the reading on all ranks, if this one ends before everything was taken. REQUIRES: no
  // TakeStretch is under way.
  void Stop(const absl::Status& status);

 private:
  struct Round {
    int unit = 0;
    uint64_t begin = 0;
    uint64_t count = 0;
  };

  Round RoundAt(uint64_t number) const;
  float* MemoryOf(uint64_t number) const { return memory_ + number % 2 * round_parameters_; }
  // Waits until the round is in memory; brings it if it is the next and no other thread does.
  absl::Status AwaitRound(uint64_t number);
  absl::Status Bring(uint64_t number);
  // All ranks agree on a round before its values are sent.
  absl::Status AgreeOnRound(const absl::Status& own);
  absl::Status Fail(const absl::Status& status);

  const ShardGrid grid_;
  Collectives* const replicas_;
  float* const memory_;
  const uint64_t part_parameters_;
  const uint64_t round_parameters_;  // one part per replica
  const Read read_;
  std::vector<uint64_t> unit_parameters_;  // parameters of the shard
  std::vector<uint64_t> first_round_;      // first round of each unit, then the number of rounds

  Mutex mutex_;
  CondVar changed_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  uint64_t brought_ ABSL_GUARDED_BY(mutex_) = 0;   // rounds brought so far
  bool bringing_ ABSL_GUARDED_BY(mutex_) = false;  // a thread brings the next round
  uint64_t left_[2] ABSL_GUARDED_BY(mutex_) = {};  // parameters of each round not taken yet
  bool parted_ = false;  // the others no longer listen; for the thread that brings a round
};

}  // namespace spillway
