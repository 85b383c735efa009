// A run's plan as text: four lines by default, and the whole of it with a sentence for each line
// (--explain). Pure functions of values.
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
  int units = 0;                // units that compute
  uint64_t in_place_bytes = 0;  // frozen weights that are read in place, in the model's files
  uint64_t device_limit_bytes = 0;
  uint64_t host_limit_bytes = 0;
  uint64_t computing_bytes = 0;          // peak of device memory
  std::string products;                  // dtype of products, and why; empty: the run's
  std::optional<StepForecast> forecast;  // none: no forecast
  int64_t steps = 0;                     // steps to be taken; 0: not known
  // Times of commits: "about every 15 min, and at the end"; empty: not known.
  std::string commits;
};

// "plan: 85.3M parameters in 14 units", and where the state is, what a step moves, the budgets, the
// forecast if there is one, and when the run commits; each in a line of at most 80 columns.
std::string PlanText(const SwapPlan& plan, const PlanFacts& facts);

// Every line of the plan, each followed by a sentence that explains it.
std::string ExplainedPlan(const SwapPlan& plan, const GraphPlan& graphs, const PlanFacts& facts);

// Explains the line of the plan with this label; "" for an unknown label.
absl::string_view PlanLineMeaning(absl::string_view label);

// Returns "85.3M", "1.56B", "980": three digits.
std::string CountText(uint64_t count);

}  // namespace spillway
