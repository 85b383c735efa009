// The dry run: measures device memory and time of the computation before step 1.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/estimate/timings.h"
#include "engine/torch/init_source.h"
#include "engine/torch/model_compute.h"

namespace spillway {

// Computes one micro-batch with every kind of unit by the functions of a step, with weights like
// the model's initial ones. Compute thread; before the first step.
class DryRunner {
 public:
  // `compute` outlives the object. `clock` returns seconds.
  DryRunner(ModelCompute* compute, const std::function<double()>& clock)
      : compute_(*compute),
        first_weights_(compute->model_, compute->options_.seed),
        clock_(clock) {}

  // kInternal if LibTorch fails; kResourceExhausted if memory is refused.
  absl::StatusOr<DryRun> Measure();

 private:
  // The shape of a unit's output. The outputs of all kinds together may need more memory than a
  // step, which moves some elsewhere.
  struct OutputShape {
    std::vector<int64_t> sizes, strides;
    torch::TensorOptions options;
    uint64_t bytes = 0;

    static OutputShape Of(const torch::Tensor& output);
    torch::Tensor Zeros() const;
  };
  // Decides how often a kind of unit is run until its time is known. The first run also faults its
  // memory in: if it took at most kColdSeconds it is repeated. On some machines a process computes
  // at half its speed for a second or two after its start, so long runs are repeated while they
  // become faster.
  class Repeats {
   public:
    // Call after each run, with its duration.
    bool Enough(double seconds) {
      spent_ += seconds;
      ++count_;
      const bool quicker = count_ == 1 || seconds < kQuicker * least_;
      least_ = count_ == 1 ? seconds : std::min(least_, seconds);
      if (count_ == 1) return seconds > kColdSeconds;
      if (spent_ + seconds > kMostSeconds) return true;
      return !quicker && (count_ >= kFewRuns || spent_ > kFewSeconds);
    }

   private:
    static constexpr double kColdSeconds = 10;
    static constexpr double kMostSeconds = 4;
    static constexpr double kFewSeconds = 1;
    static constexpr int kFewRuns = 10;
    static constexpr double kQuicker = 0.97;

    double spent_ = 0;
    double least_ = 0;
    int count_ = 0;
  };
  // Time and memory of one kind of unit, for one micro-batch.
  struct UnitNeeds {
    torch::Tensor output;  // until the next unit has it; undefined for the last unit
    OutputShape shape;
    uint64_t peak_bytes = 0;
    uint64_t graph_bytes = 0;
    Timings forward;
    Timings backward;  // including recompute; for the last unit the loss
    Timings graph_backward;
    Repeats repeats;
    bool enough = false;
    int unit = 0;  // the unit that was measured
  };
  // Measures until the time is known, or `once`: then only those chunks of a loss that show its
  // memory.
  absl::Status MeasureUnit(int unit, bool once, UnitNeeds& needs);
  // MeasureUnit, and a check that LibTorch's own random generator was not used. `like`: [unit] the
  // unit measured in its place.
  absl::Status MeasureChecked(int unit, bool once, const std::vector<int>& like, UnitNeeds& needs);

  bool too_large_ = false;  // a unit needs more than the device's whole budget
  ModelCompute& compute_;
  InitSource first_weights_;
  const std::function<double()>& clock_;
};

}  // namespace spillway
