// What the trainer notes of a step beside its arithmetic; see engine/train/trainer_watch.cc.
#pragma once

#include "engine/train/trainer.h"
#include "io/base/trace.h"

namespace spillway {

// What was counted from `begin` to `end` is not counted as since `start`.
void LeaveOut(const SwapStats& begin, const SwapStats& end, SwapStats& start);
void LeaveOut(const ShardedStats& begin, const ShardedStats& end, ShardedStats& start);

// One wait, for disk, updates, copies or other ranks, as these were busy meanwhile. The mover
// counts those of operations in the same way. While a separate device still computes, nothing
// waits.
class Trainer::WaitOutsideOps {
 public:
  explicit WaitOutsideOps(Trainer& trainer);
  // It was no failure, and is over.
  void End();

 private:
  Trainer& trainer_;
  const SwapStats before_;
  const ShardedStats exchanged_before_;
  Span span_;
};

}  // namespace spillway
