// A run's plan in words: four lines for everybody, and the whole of it with a sentence for each
// line (--explain). Pure functions of values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/estimate/step_forecast.h"
#include "engine/model/graph_plan.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// Facts about the run that the plan's text shows beside the plan itself.
struct PlanFacts {
  uint64_t parameters = 0;
  uint64_t trained_parameters = 0;
  int units = 0;                // that compute
  uint64_t in_place_bytes = 0;  // of frozen weights, read in the model's files
  uint64_t device_limit_bytes = 0;
  uint64_t host_limit_bytes = 0;
  uint64_t computing_bytes = 0;          // of device memory, at its peak
  std::string products;                  // in which dtype, and why; empty: in the run's
  std::optional<StepForecast> forecast;  // none: nothing was predicted
  int64_t steps = 0;                     // that are to be taken; 0: not known
  // When the run commits, as "about every 15 min, and at the end"; empty: not known.
  std::string commits;
};

// "plan: 85.3M parameters in 14 units", and where the state lives, what a step moves, the budgets,
// the forecast where there is one, and when the run commits, each in a line of 80 columns at most.
std::string PlanText(const SwapPlan& plan, const PlanFacts& facts);

// Every line of the plan, each followed by a sentence that explains it.
std::string ExplainedPlan(const SwapPlan& plan, const GraphPlan& graphs, const PlanFacts& facts);

// Explains the line of the plan with this label; "" for an unknown label.
absl::string_view PlanLineMeaning(absl::string_view label);

// "85.3M", "1.56B", "980": three digits.
std::string CountText(uint64_t count);

}  // namespace spillway
