// The speed of a process's steps in a few lines, for the end of train: how long a step took and
// why, what it moved, and what that does to the drive. Plain values; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/estimate/run_forecast.h"
#include "engine/options/rank_options.h"
#include "engine/report/metrics.h"

namespace spillway {

class StepSummary {
 public:
  // Of each step, in order. The first, which runs no deferred update and finds nothing ahead of
  // it, does not count where there are others.
  void Add(const StepMetrics& row);

  // Of the steps that count (of many, the last few thousand); 0 without any.
  double median_seconds() const;

  // Of the steps that count, together.
  ObservedRates observed_rates() const;

  // How long the step should have taken had the rates of disk and link been as those steps had
  // them; Text says so where that is another prediction.
  void SetPredictedAtObservedRates(double seconds) { at_observed_rates_seconds_ = seconds; }
  // Finds that, with all but the rates as in `clock`. None without a clock, or a step.
  std::optional<double> PredictAgain(const SwapPlan& plan, const std::optional<StepClock>& clock);

  // Lines of at most 80 columns, each beginning with "\n  name       "; "" without a step.
  // `workers`: whose busy time is in a row's `update`. Of several ranks it says whose figures these
  // and those beside them are.
  std::string Text(int workers, double drive_bytes_per_day, const RankOptions& ranks = {}) const;

 private:
  std::string MovedBy() const;  // "disk, GPU copies": what moved anything
  std::string LimitIn(Phase phase) const;
  std::string ForecastLines() const;
  std::string SpeedLines(int workers) const;
  std::string TrafficLines(double drive_bytes_per_day) const;

  std::optional<StepMetrics> first_;
  std::optional<StepForecast> forecast_;
  struct Step {
    double seconds = 0, read_bytes = 0, written_bytes = 0;
  };
  static constexpr size_t kMostSteps = 4096;

  void Count(const StepMetrics& row);
  double Median(double Step::*member) const;

  int64_t counted_ = 0;      // steps that count
  std::vector<Step> steps_;  // the last kMostSteps of them, for medians
  StepMetrics sums_;         // likewise; of the members that Text tells of
  std::optional<double> at_observed_rates_seconds_;
};

}  // namespace spillway
