#include "engine/numeric/metric_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace spillway {
namespace {

MetricScheduleSpec MetricSpecOf(const std::string& kind, const nlohmann::json& arguments) {
  MetricScheduleSpec spec;
  if (kind == "greedy") {
    spec = {.kind = MetricScheduleSpec::Kind::kGreedy,
            .factor = 0.95,
            .threshold = 1e-6,
            .relative_threshold = false,
            .min_lr = 1e-3};
    if (arguments.value("smooth", false)) spec.window_size = arguments.value("window_size", 50);
  }
  spec.higher_is_better = arguments.value("mode", "min") == "max";
  spec.factor = arguments.value("factor", spec.factor);
  spec.patience = arguments.value("patience", spec.patience);
  spec.threshold = arguments.value("threshold", spec.threshold);
  if (arguments.contains("threshold_mode")) {
    spec.relative_threshold = arguments["threshold_mode"] == "rel";
  }
  spec.cooldown = arguments.value("cooldown", spec.cooldown);
  spec.warmup = arguments.value("warmup", spec.warmup);
  spec.min_lr = arguments.value("min_lr", spec.min_lr);
  spec.max_lr = arguments.value("max_lr", spec.max_lr);
  spec.eps = arguments.value("eps", spec.eps);
  spec.reset_start = arguments.value("reset_start", spec.reset_start);
  return spec;
}

// tests/golden/make_schedules.py ran torch and transformers themselves. Each state goes through a
// commit's JSON.
TEST(MetricSchedule, FollowsEvaluationsAsTorchAndTransformersDo) {
  const nlohmann::json golden =
      nlohmann::json::parse(std::ifstream(SPILLWAY_SOURCE_DIR "/tests/golden/schedules.json"));
  const double base = golden["base_lr"];
  ASSERT_GE(golden["metric_schedules"].size(), 9);
  for (const nlohmann::json& schedule : golden["metric_schedules"]) {
    const MetricScheduleSpec spec = MetricSpecOf(schedule["kind"], schedule["arguments"]);
    ASSERT_TRUE(ValidateMetricSchedule(spec).ok());
    MetricScheduleState state;
    for (size_t i = 0; i < schedule["metrics"].size(); ++i) {
      FollowMetric(spec, base, schedule["metrics"][i], state);
      ASSERT_EQ(state.rate.value_or(base), schedule["rates"][i].get<double>())
          << schedule["kind"] << schedule["arguments"] << ", evaluation " << i;
      const MetricScheduleState again =
          MetricScheduleStateFromJson(nlohmann::json::parse(ToJson(state).dump()));
      ASSERT_EQ(again, state);
      state = again;
    }
  }
}

TEST(MetricSchedule, AMetricThatIsNoNumberIsNeverBetter) {
  MetricScheduleState state;
  for (int i = 0; i < 3; ++i) {
    FollowMetric({.patience = 1}, 1, std::numeric_limits<double>::quiet_NaN(), state);
  }
  EXPECT_FALSE(state.best);
  EXPECT_EQ(state.rate, 0.1);
}

}  // namespace
}  // namespace spillway
