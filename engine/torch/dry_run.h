// The dry run: how much device memory computing takes, and how long, before step 1.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "engine/estimate/timings.h"
#include "engine/torch/model_compute.h"

namespace spillway {

// Computes one micro-batch with every kind of unit by the very functions of a step, with weights of
// zero. The thread that computes; before the first step.
class DryRunner {
 public:
  // `compute` outlives it. `clock` gives seconds.
  DryRunner(ModelCompute* compute, const std::function<double()>& clock)
      : compute_(*compute), clock_(clock) {}

  // kInternal where LibTorch fails; kResourceExhausted where memory is refused.
  absl::StatusOr<DryRun> Measure();

 private:
  // What one kind of unit takes, with one micro-batch.
  struct UnitNeeds {
    torch::Tensor output;  // undefined of the last unit
    uint64_t peak_bytes = 0;
    uint64_t graph_bytes = 0;
    Timings forward;
    Timings backward;  // with the recomputed forward; of the last unit the loss
    Timings graph_backward;
  };
  absl::Status MeasureUnit(int unit, UnitNeeds& needs);

  ModelCompute& compute_;
  const std::function<double()>& clock_;
};

}  // namespace spillway
