#include "engine/numeric/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace spillway {
namespace {

ScheduleSpec SpecOf(const nlohmann::json& fields) {
  ScheduleSpec spec;
  while (ScheduleName(spec.kind) != fields.at("kind").get<std::string>()) {
    spec.kind = static_cast<ScheduleSpec::Kind>(static_cast<int>(spec.kind) + 1);
  }
  spec.warmup_steps = fields.value("warmup_steps", 0);
  const bool restarts = spec.kind == ScheduleSpec::Kind::kCosineWithRestarts;
  spec.num_cycles = fields.value("num_cycles", restarts ? 1 : spec.num_cycles);
  spec.lr_end = fields.value("lr_end", spec.lr_end);
  spec.power = fields.value("power", spec.power);
  if (fields.contains("timescale")) spec.timescale = fields["timescale"];
  if (fields.contains("min_lr") && !fields.contains("step_size")) spec.min_lr = fields["min_lr"];
  spec.min_lr_rate = fields.value("min_lr_rate", spec.min_lr_rate);
  if (fields.contains("warmup_lr_rate")) spec.warmup_lr_rate = fields["warmup_lr_rate"];
  spec.num_decay_steps = fields.value("num_decay_steps", 0);
  if (fields.contains("num_stable_steps")) spec.num_stable_steps = fields["num_stable_steps"];
  spec.min_lr_ratio = fields.value("min_lr_ratio", 0.0);
  const auto curve = [&](const char* name, ScheduleSpec::Curve usual) {
    const std::string word = fields.value(name, "");
    return word == "linear"   ? ScheduleSpec::Curve::kLinear
           : word == "cosine" ? ScheduleSpec::Curve::kCosine
           : word == "1-sqrt" ? ScheduleSpec::Curve::kOneMinusSqrt
                              : usual;
  };
  if (spec.kind == ScheduleSpec::Kind::kWarmupStableDecay) {
    spec.warmup_curve = curve("warmup_type", spec.warmup_curve);
    spec.decay_curve = curve("decay_type", spec.decay_curve);
    return spec;
  }
  spec.warmup_type = fields.value("warmup_type", "log") == "log"
                         ? ScheduleSpec::WarmupType::kLog
                         : ScheduleSpec::WarmupType::kLinear;
  spec.warmup_min_lr = fields.value("warmup_min_lr", spec.warmup_min_lr);
  if (fields.contains("warmup_max_lr")) spec.warmup_max_lr = fields["warmup_max_lr"];
  spec.warmup_min_ratio = fields.value("warmup_min_ratio", spec.warmup_min_ratio);
  spec.cos_min_ratio = fields.value("cos_min_ratio", spec.cos_min_ratio);
  if (fields.contains("total_num_steps")) spec.total_num_steps = fields["total_num_steps"];
  ScheduleSpec::RangeTest& test = spec.range_test;
  test.min_lr = fields.value("min_lr", test.min_lr);
  test.step_size = fields.value("step_size", test.step_size);
  test.step_rate = fields.value("step_rate", test.step_rate);
  test.staircase = fields.value("staircase", test.staircase);
  ScheduleSpec::OneCycle& cycle = spec.one_cycle;
  cycle.min_lr = fields.value("cycle_min_lr", 0.0);
  cycle.max_lr = fields.value("cycle_max_lr", 0.0);
  cycle.first_steps = fields.value("cycle_first_step_size", cycle.first_steps);
  cycle.second_steps = fields.value("cycle_second_step_size", cycle.first_steps);
  cycle.first_stairs = fields.value("cycle_first_stair_count", 0);
  cycle.second_stairs = fields.value("cycle_second_stair_count", cycle.first_stairs);
  cycle.decay_steps = fields.value("decay_step_size", 0);
  cycle.decay_rate = fields.value("decay_lr_rate", 0.0);
  cycle.moves_betas = true;
  cycle.min_beta1 = fields.value("cycle_min_mom", cycle.min_beta1);
  cycle.max_beta1 = fields.value("cycle_max_mom", cycle.max_beta1);
  return spec;
}

// tests/golden/make_schedules.py ran the two libraries themselves.
TEST(LearningRate, IsThatOfTransformersAndDeepSpeedAtEveryStep) {
  const nlohmann::json golden =
      nlohmann::json::parse(std::ifstream(SPILLWAY_SOURCE_DIR "/tests/golden/schedules.json"));
  ASSERT_GE(golden["schedules"].size(), 69);
  for (const nlohmann::json& schedule : golden["schedules"]) {
    const ScheduleSpec spec = SpecOf(schedule["spec"]);
    ASSERT_TRUE(ValidateSchedule(spec).ok());
    ASSERT_EQ(schedule["rates"].size(), 200);
    for (int step = 1; step <= 200; ++step) {
      const double expected = schedule["rates"][step - 1];
      const double rate = LearningRate(spec, golden["base_lr"], step, golden["total_steps"]);
      ASSERT_NEAR(rate, expected, 1e-14 * std::abs(expected) + 1e-19)
          << schedule["spec"] << ", step " << step;
      const auto betas = ScheduledBetas(spec, step);
      ASSERT_EQ(betas.has_value(), schedule.contains("betas"));
      if (!betas) continue;
      const nlohmann::json& moved = schedule["betas"][step - 1];
      ASSERT_NEAR((*betas)[0], moved[0].get<double>(), 1e-15)
          << schedule["spec"] << ", step " << step;
      ASSERT_EQ((*betas)[1], moved[1].get<double>());
    }
  }
}

TEST(LearningRate, DecaysOverTheRunWhenNoTotalIsGiven) {
  ScheduleSpec spec = {.kind = ScheduleSpec::Kind::kWarmupDecayLr, .warmup_steps = 10};
  const double without = LearningRate(spec, 1, 52, 102);
  spec.total_num_steps = 102;
  EXPECT_EQ(LearningRate(spec, 1, 52, 7), without);
  EXPECT_GT(without, 0);
  EXPECT_LT(without, 1);
}

TEST(Schedule, RefusesNumbersThatMakeNoSense) {
  EXPECT_FALSE(ValidateSchedule({.warmup_steps = -1}).ok());
  EXPECT_FALSE(ValidateSchedule({.power = -1}).ok());
  EXPECT_FALSE(ValidateSchedule({.timescale = 0}).ok());
  EXPECT_FALSE(ValidateSchedule({.num_decay_steps = -1}).ok());
  EXPECT_FALSE(ValidateSchedule({.metric = {.factor = 1}}).ok());
  EXPECT_FALSE(ValidateSchedule({.metric = {.patience = -1}}).ok());
  EXPECT_FALSE(ValidateSchedule({.warmup_min_lr = -1e-5}).ok());
  EXPECT_FALSE(ValidateSchedule({.warmup_max_lr = std::nan("")}).ok());
  EXPECT_FALSE(ValidateSchedule({.total_num_steps = 0}).ok());
  EXPECT_FALSE(ValidateSchedule({.range_test = {.step_size = 0}}).ok());
  EXPECT_FALSE(ValidateSchedule({.one_cycle = {.first_steps = 0}}).ok());
  EXPECT_FALSE(ValidateSchedule({.one_cycle = {.second_stairs = -1}}).ok());
  EXPECT_FALSE(ValidateSchedule({.one_cycle = {.max_beta1 = 1}}).ok());
  const absl::Status status = ValidateSchedule({.cos_min_ratio = -0.5});
  EXPECT_EQ(status.message(), "lr schedule: cos_min_ratio is -0.5; it must be 0 or more");
}

}  // namespace
}  // namespace spillway
