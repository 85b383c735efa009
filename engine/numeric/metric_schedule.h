// Learning rates that follow what evaluations find: torch's ReduceLROnPlateau (torch 2.11) and
// transformers' GreedyLR (5.24). Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace spillway {

struct MetricScheduleSpec {
  enum class Kind : uint8_t {
    kPlateau,  // the rate falls where the metric no longer gets better
    kGreedy,   // likewise, and rises where it keeps getting better
  };

  Kind kind = Kind::kPlateau;
  bool higher_is_better = false;  // mode "max"
  // The rate is multiplied by it, or divided, after more evaluations in a row than `patience` that
  // were not better, or were.
  double factor = 0.1;
  int64_t patience = 10;
  // What is better by less is not better; relative: a part of the best so far.
  double threshold = 1e-4;
  bool relative_threshold = true;
  int64_t cooldown = 0, warmup = 0;  // evaluations that are passed over after a fall, after a rise
  double min_lr = 0, max_lr = 1;     // the second of kGreedy
  double eps = 1e-8;                 // a change that is no more than this is not made
  // kGreedy: the metric is the mean of so many evaluations; 0: the last one's.
  int64_t window_size = 0;
  int64_t reset_start = 500;  // kGreedy: falls at the least rate until all begins anew

  friend bool operator==(const MetricScheduleSpec&, const MetricScheduleSpec&) = default;
};

// kInvalidArgument, naming the field, when a number makes no sense.
absl::Status ValidateMetricSchedule(const MetricScheduleSpec& spec);

// Where such a schedule is; part of a run's state.
struct MetricScheduleState {
  std::optional<double> rate = std::nullopt;  // absent: the optimizer's
  std::optional<double> best = std::nullopt;  // absent: nothing was compared yet
  int64_t bad = 0, good = 0;                  // evaluations in a row that were not better, or were
  int64_t cooldown_left = 0, warmup_left = 0;
  int64_t falls_at_least_rate = 0;
  std::vector<double> window = {};
  double window_sum = 0;  // as transformers adds it up

  friend bool operator==(const MetricScheduleState&, const MetricScheduleState&) = default;
};

// Takes what an evaluation found into account: the rate is that of the steps behind it.
// `base_lr`: the optimizer's, with which all begins.
void FollowMetric(const MetricScheduleSpec& spec, double base_lr, double metric,
                  MetricScheduleState& state);

// For the commit. The second throws nlohmann's exceptions for what the first has not made.
nlohmann::json ToJson(const MetricScheduleState& state);
MetricScheduleState MetricScheduleStateFromJson(const nlohmann::json& json);

}  // namespace spillway
