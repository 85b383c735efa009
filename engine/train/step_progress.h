// The progress of a run's steps: loss, learning rate, norm, epoch and a smoothed speed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/progress.h"
#include "engine/report/metrics.h"

namespace spillway {

// An exponential moving average over the last ten steps or ten seconds, whichever are longer: of
// amounts and of seconds alike, so that a slow step weighs what it took.
class SmoothedRate {
 public:
  // Adds one step.
  void Add(double amount, double seconds);
  // Since the start, the newest most; 0 before the first step.
  double per_second() const { return seconds_ > 0 ? amount_ / seconds_ : 0; }

 private:
  double amount_ = 0, seconds_ = 0;
};

// "4.9e-5", "0.001", "1.2": two digits, without the zeros of C's exponents.
std::string FormatShort(double value);

// The parts of a step's line. `epochs`: of the whole run, shown with those up to this step where
// the run sees its data at least once; 0: not known. A pure function.
std::vector<ProgressDetail> StepDetails(const StepMetrics& row, const Throughput& speed,
                                        double epochs, int64_t steps);

class StepProgress {
 public:
  // `epochs`: StepDetails's. `sample_unit`: ThroughputOf's.
  StepProgress(int64_t steps, double epochs, std::string sample_unit)
      : steps_(steps),
        epochs_(epochs),
        sample_unit_(std::move(sample_unit)),
        progress_("step", steps) {}

  // After a step, in order.
  void Show(const StepMetrics& row);

 private:
  const int64_t steps_;
  const double epochs_;
  const std::string sample_unit_;
  SmoothedRate rate_;
  Progress progress_;
};

}  // namespace spillway
