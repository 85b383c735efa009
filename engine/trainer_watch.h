// What the trainer notes of a step beside its arithmetic; see engine/trainer_watch.cc.
#pragma once

#include "engine/trainer.h"
#include "io/trace.h"

namespace spillway {

// One wait, for disk or updates as the workers were busy or not meanwhile. The mover counts
// those of operations in the same way.
class Trainer::WaitOutsideOps {
 public:
  explicit WaitOutsideOps(Trainer& trainer);
  // It was no failure, and is over.
  void End();

 private:
  Trainer& trainer_;
  const double update_seconds_before_;
  Span span_;
};

}  // namespace spillway
