// Learning rates that follow evaluations: torch's ReduceLROnPlateau (torch 2.11) and transformers'
// GreedyLR (5.24). Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/numeric/lr_schedule.h"
#include "nlohmann/json.hpp"

namespace spillway {

// The state of such a schedule; part of a run's state.
struct MetricScheduleState {
  std::optional<double> rate = std::nullopt;  // absent: the optimizer's
  std::optional<double> best = std::nullopt;  // absent: nothing was compared yet
  int64_t bad = 0, good = 0;  // evaluations in a row without improvement, and with it
  int64_t cooldown_left = 0, warmup_left = 0;
  int64_t falls_at_least_rate = 0;
  std::vector<double> window = {};
  double window_sum = 0;  // accumulated in transformers' order

  friend bool operator==(const MetricScheduleState&, const MetricScheduleState&) = default;
};

// Updates the state with an evaluation's metric: the rate applies to the following steps.
// `base_lr`: the optimizer's rate, with which the schedule starts.
void FollowMetric(const MetricScheduleSpec& spec, double base_lr, double metric,
                  MetricScheduleState& state);

// For commits. The second throws nlohmann's exceptions for JSON that the first did not make.
nlohmann::json ToJson(const MetricScheduleState& state);
MetricScheduleState MetricScheduleStateFromJson(const nlohmann::json& json);

}  // namespace spillway
