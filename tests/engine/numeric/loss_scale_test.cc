#include "engine/numeric/loss_scale.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

namespace spillway {
namespace {

LossScaleState StateOf(const nlohmann::json& row) { return {row[0], row[1], row[2], row[3]}; }

// tests/golden/make_schedules.py ran DeepSpeed's DynamicLossScaler. A second scaler is
// replaced by a restored one at every step: the state is all there is.
TEST(LossScaler, FollowsDeepSpeedStepByStep) {
  const nlohmann::json golden =
      nlohmann::json::parse(std::ifstream(SPILLWAY_SOURCE_DIR "/tests/golden/schedules.json"));
  ASSERT_EQ(golden["loss_scales"].size(), 7);
  int errors = 0;
  for (const nlohmann::json& run : golden["loss_scales"]) {
    const nlohmann::json& fields = run["spec"];
    const LossScaleSpec spec = {.initial_scale_power = fields["initial_scale_power"],
                                .window = fields["window"],
                                .hysteresis = fields["hysteresis"],
                                .consecutive_hysteresis = fields["consecutive_hysteresis"]};
    const std::set<int> overflows = run["overflows"];
    LossScaler scaler(spec);
    LossScaleState state = scaler.state();
    int step = 0;
    for (const nlohmann::json& expected : run["states"]) {
      LossScaler restored(spec);
      restored.Restore(state);
      const bool overflow = overflows.contains(step++);
      const absl::Status status = scaler.Update(overflow);
      EXPECT_EQ(restored.Update(overflow), status);
      state = restored.state();
      if (expected == "error") {
        ++errors;
        EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
        EXPECT_NE(status.message().find("minimum loss scale of 1"), absl::string_view::npos);
        break;
      }
      ASSERT_TRUE(status.ok());
      ASSERT_EQ(scaler.state(), StateOf(expected)) << fields << ", step " << step;
      ASSERT_EQ(state, scaler.state());
    }
  }
  EXPECT_EQ(errors, 2);
}

TEST(LossScaler, AStaticScaleNeverChanges) {
  LossScaler scaler({.static_scale = 128, .hysteresis = 1, .min_scale = 128});
  for (int step = 0; step < 10; ++step) {
    EXPECT_TRUE(scaler.Update(step % 2 == 0).ok());
    EXPECT_EQ(scaler.scale(), 128);
  }
}

// A static scale that always overflows would skip all steps that are left, and call that success.
TEST(LossScaler, AStaticScaleThatAlwaysOverflowsEndsTheRun) {
  const LossScaleSpec spec = {.static_scale = 65536};
  LossScaleState state;
  // One good step, and a scaler that is restored at every step: the state is all there is.
  for (int64_t step = 0; step < 2 * kMostOverflowsInARow; ++step) {
    LossScaler scaler(spec);
    if (step > 0) scaler.Restore(state);
    const absl::Status status = scaler.Update(step != kMostOverflowsInARow - 1);
    if (step == 2 * kMostOverflowsInARow - 1) {
      EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
      EXPECT_NE(status.message().find("static loss scale of 65536 in 100 steps"),
                absl::string_view::npos)
          << status;
      EXPECT_EQ(scaler.state(), state);
    } else {
      ASSERT_TRUE(status.ok()) << step << ": " << status;
    }
    state = scaler.state();
  }
}

TEST(LossScaler, RefusesNumbersThatMakeNoSense) {
  EXPECT_TRUE(ValidateLossScale({}).ok());
  EXPECT_FALSE(ValidateLossScale({.static_scale = -1}).ok());
  EXPECT_FALSE(ValidateLossScale({.initial_scale_power = 128}).ok());
  EXPECT_FALSE(ValidateLossScale({.window = 0}).ok());
  EXPECT_FALSE(ValidateLossScale({.hysteresis = 0}).ok());
  EXPECT_EQ(ValidateLossScale({.min_scale = 0}).message(),
            "fp16: min_loss_scale is 0; it must be a positive number");
}

}  // namespace
}  // namespace spillway
