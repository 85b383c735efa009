// The speed of a process's steps in a few lines, for the end of train: the time of a step and its
// causes, the bytes it moved, and the wear of the drive. Plain values; one thread.
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
  // Adds each step, in order. The first one, which runs no deferred update and has nothing
  // prefetched, does not count if there are others.
  void Add(const StepMetrics& row);

  // Median over the steps that count (of many, the last few thousand); 0 without any.
  double median_seconds() const;

  // Rates over all steps that count.
  ObservedRates observed_rates() const;

  // Sets the step time predicted with the rates of disk and link in those steps; Text mentions it
  // if it differs from the first prediction.
  void SetPredictedAtObservedRates(double seconds) { at_observed_rates_seconds_ = seconds; }
  // Computes that prediction, with everything but the rates as in `clock`. None without a clock, or
  // a step.
  std::optional<double> PredictAgain(const SwapPlan& plan, const std::optional<StepClock>& clock);

  // Lines of at most 80 columns, each beginning with "\n  name       "; "" without a step.
  // `workers`: number of those whose busy time is in a row's `update`. With several ranks the text
  // says whose figures these are.
  std::string Text(int workers, double drive_bytes_per_day, const RankOptions& ranks = {}) const;

 private:
  std::string MovedBy() const;  // returns "disk, GPU copies": what moved bytes
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

  int64_t counted_ = 0;      // number of steps that count
  std::vector<Step> steps_;  // the last kMostSteps of them, for medians
  StepMetrics sums_;         // of the same steps; members that Text shows
  std::optional<double> at_observed_rates_seconds_;
};

}  // namespace spillway
