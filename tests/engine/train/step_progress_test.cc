#include "engine/train/step_progress.h"

#include "gtest/gtest.h"

namespace spillway {
namespace {

std::string LineOf(const StepMetrics& row, double epochs = 0) {
  return ProgressText({"step", row.step, 600, StepDetails(row, {1449, "tokens"}, epochs, 600), ""});
}

StepMetrics Row() {
  StepMetrics row;
  row.step = 274;
  row.loss = 7.50119;
  row.learning_rate = 4.9e-5;
  row.tokens = 128;
  row.labels = 127;
  row.seconds = 0.1;
  return row;
}

TEST(StepProgress, ShowsNormAndEpochWhereThereAre) {
  StepMetrics row = Row();
  EXPECT_EQ(LineOf(row), "step 274/600  loss 7.5012  lr 4.9e-5  1.4k tok/s");
  row.grad_norm = 1.234;
  EXPECT_EQ(LineOf(row, 3),
            "step 274/600  loss 7.5012  lr 4.9e-5  norm 1.23  epoch 1.37/3  1.4k tok/s");
  // Of a run that does not see all of its data there is nothing to count.
  EXPECT_EQ(LineOf(row, 0.98), "step 274/600  loss 7.5012  lr 4.9e-5  norm 1.23  1.4k tok/s");
}

TEST(StepProgress, SaysWhatWasSkipped) {
  StepMetrics row = Row();
  row.skipped = true;
  EXPECT_EQ(LineOf(row), "step 274/600  loss 7.5012 (skipped)  lr 4.9e-5  1.4k tok/s");
  row.labels = 0;
  EXPECT_EQ(LineOf(row), "step 274/600  no labels (skipped)  lr 4.9e-5  1.4k tok/s");
}

TEST(StepProgress, CountsSamplesWhereThereAreNoTokens) {
  EXPECT_EQ(ProgressText({"step", 274, 600, StepDetails(Row(), {42, "pictures"}, 0, 600), ""}),
            "step 274/600  loss 7.5012  lr 4.9e-5  42 pictures/s");
}

TEST(StepProgress, ShortNumbers) {
  const std::pair<double, const char*> numbers[] = {
      {4.93e-5, "4.9e-5"}, {5e-5, "5e-5"},  {1e-10, "1e-10"}, {0.001, "0.001"}, {0, "0"},
      {1.26, "1.3"},       {1.5e7, "1.5e7"}};
  for (const auto& [number, text] : numbers) EXPECT_EQ(FormatShort(number), text);
}

TEST(SmoothedRate, IsThatOfTheLastTenStepsOrTenSeconds) {
  SmoothedRate rate;
  EXPECT_EQ(rate.per_second(), 0);
  // Steps that take turns: a tenth of a second and half of one. Their mean is 333 a second.
  double least = 1e9, most = 0;
  for (int step = 0; step < 1000; ++step) {
    rate.Add(100, step % 2 == 0 ? 0.1 : 0.5);
    if (step < 500) continue;
    least = std::min(least, rate.per_second());
    most = std::max(most, rate.per_second());
  }
  EXPECT_GT(least, 320);
  EXPECT_LT(most, 347);
  // A change shows after some 30 s, or 30 steps.
  for (int step = 0; step < 60; ++step) rate.Add(100, 0.5);
  EXPECT_NEAR(rate.per_second(), 200, 10);
  for (int step = 0; step < 30; ++step) rate.Add(100, 20);
  EXPECT_NEAR(rate.per_second(), 5, 0.5);
}

}  // namespace
}  // namespace spillway
