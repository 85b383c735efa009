// Learning rates that follow what evaluations find: torch's ReduceLROnPlateau (torch 2.11) and
// transformers' GreedyLR (5.24). Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/numeric/lr_schedule.h"
#include "nlohmann/json.hpp"

namespace spillway {

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
