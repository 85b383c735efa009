// Shows the progress of a run's steps: loss, learning rate, norm, epoch and a smoothed speed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/progress.h"
#include "engine/report/metrics.h"

namespace spillway {

// An exponential moving average over the last ten steps or ten seconds, whichever is longer, of
// amounts and seconds alike, so that slow steps count by their duration.
class SmoothedRate {
 public:
  // Adds one step.
  void Add(double amount, double seconds);
  // The average since the start, weighted towards the newest steps; 0 before the first step.
  double per_second() const { return seconds_ > 0 ? amount_ / seconds_ : 0; }

 private:
  double amount_ = 0, seconds_ = 0;
};

// "4.9e-5", "0.001", "1.2": two digits, without the leading zeros of C's exponents.
std::string FormatShort(double value);

// The parts of a step's line. `epochs`: of the whole run, shown with the current one if the run
// sees its data at least once; 0: not known. A pure function.
std::vector<ProgressDetail> StepDetails(const StepMetrics& row, const Throughput& speed,
                                        double epochs, int64_t steps);

class StepProgress {
 public:
  // `epochs`: as for StepDetails. `sample_unit`: as for ThroughputOf.
  StepProgress(int64_t steps, double epochs, std::string sample_unit)
      : steps_(steps),
        epochs_(epochs),
        sample_unit_(std::move(sample_unit)),
        progress_("step", steps) {}

  // Shows a step; called in order.
  void Show(const StepMetrics& row);

 private:
  const int64_t steps_;
  const double epochs_;
  const std::string sample_unit_;
  SmoothedRate rate_;
  Progress progress_;
};

}  // namespace spillway
