// The dry run: how much device memory computing takes, and how long, before step 1.
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

// Computes one micro-batch with every kind of unit by the very functions of a step, with weights
// such as the model begins with. The thread that computes; before the first step.
class DryRunner {
 public:
  // `compute` outlives it. `clock` gives seconds.
  DryRunner(ModelCompute* compute, const std::function<double()>& clock)
      : compute_(*compute),
        first_weights_(compute->model_, compute->options_.seed),
        clock_(clock) {}

  // kInternal where LibTorch fails; kResourceExhausted where memory is refused.
  absl::StatusOr<DryRun> Measure();

 private:
  // What comes out of a unit. Those of all kinds together may be more than a step has at once,
  // which keeps some elsewhere.
  struct OutputShape {
    std::vector<int64_t> sizes, strides;
    torch::TensorOptions options;
    uint64_t bytes = 0;

    static OutputShape Of(const torch::Tensor& output);
    torch::Tensor Zeros() const;
  };
  // When a kind of unit has run often enough to say what it takes. The first run also faults its
  // memory in: what took no longer than kColdSeconds is run again. A process computes at half its
  // speed for up to a second or two after its start, on some machines; so what takes its time is
  // run again for as long as that makes it quicker.
  class Repeats {
   public:
    // After a run of so many seconds.
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
  // What one kind of unit takes, with one micro-batch.
  struct UnitNeeds {
    torch::Tensor output;  // until the next unit has it; undefined of the last unit
    OutputShape shape;
    uint64_t peak_bytes = 0;
    uint64_t graph_bytes = 0;
    Timings forward;
    Timings backward;  // with the recomputed forward; of the last unit the loss
    Timings graph_backward;
    Repeats repeats;
    bool enough = false;
    int unit = 0;  // that was measured
  };
  // Until it is known how long it takes, or `once`: then of a loss of many chunks only what shows
  // its memory.
  absl::Status MeasureUnit(int unit, bool once, UnitNeeds& needs);
  // MeasureUnit, which must leave LibTorch's own random numbers where they are. `like`: [unit] that
  // was measured in place of each before this one.
  absl::Status MeasureChecked(int unit, bool once, const std::vector<int>& like, UnitNeeds& needs);

  bool too_large_ = false;  // a unit needs more than the device's whole budget
  ModelCompute& compute_;
  InitSource first_weights_;
  const std::function<double()>& clock_;
};

}  // namespace spillway
