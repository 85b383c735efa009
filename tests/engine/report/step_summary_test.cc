#include "engine/report/step_summary.h"

#include "absl/strings/str_split.h"
#include "engine/options/drive_wear.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::Not;

StepMetrics SummaryRow(int64_t step, double seconds) {
  StepMetrics row;
  row.step = step;
  row.seconds = seconds;
  row.nvme_read_bytes = 14'000'000;
  row.nvme_written_bytes = 12'000'000;
  row.stall_disk_seconds = 0.3 * seconds;
  row.busy_disk_seconds = 0.9 * seconds;
  row.busy_compute_seconds = 0.5 * seconds;
  row.busy_update_seconds = 0.4 * seconds;
  row.binding_seconds = 0.8 * seconds;
  return row;
}

StepForecast Predicted() {
  StepForecast forecast;
  forecast.predicted_seconds = 1.8;
  forecast.bound_seconds = 1.6;
  forecast.binding = Resource::kDisk;
  forecast.phases[0].binding = Resource::kDisk;
  forecast.phases[1].binding = Resource::kCompute;
  forecast.phases[2].binding = Resource::kUpdate;
  return forecast;
}

TEST(StepSummary, SaysWhyAStepTookSoLong) {
  StepSummary summary;
  for (int64_t step = 1; step <= 5; ++step) {
    StepMetrics row = SummaryRow(step, step == 1 ? 100 : 2);
    row.forecast = Predicted();
    summary.Add(row);
  }
  EXPECT_DOUBLE_EQ(summary.median_seconds(), 2);
  EXPECT_EQ(summary.Text(0, 1e12).find("nan"), std::string::npos);
  const std::string text = summary.Text(2, kDriveBytesPerDay);
  for (const char* line :
       {"\n  step       2 s median; forecast 1.8 s; at least 1.6 s for the disk\n",
        "\n  limits     the disk in the forward pass, computing in the backward, updates\n"
        "             behind it; busy 80% of the step\n",
        "\n  busy       computing 50% of the time, disk 90%,\n"
        "             updates 20% (on 2 threads of their own, beside --threads)\n",
        "\n  waited     for the disk 0.6 s (30%) a step\n",
        "\n  traffic    13.35 MiB read and 11.44 MiB written each step\n",
        "\n  wear       at this rate a drive lasts 37 years\n",
        "\n             (rated 3.84 TB a day for 5 years)"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  for (const auto& line : absl::StrSplit(text, '\n')) EXPECT_LE(std::string(line).size(), 80u);
}

TEST(StepSummary, TheLastOfTwoStepsWhichHasAnUpdateMoreIsNotTheMedian) {
  StepSummary summary;
  for (int64_t step = 1; step <= 3; ++step) summary.Add(SummaryRow(step, step * step * 10));
  EXPECT_DOUBLE_EQ(summary.median_seconds(), 40);
}

TEST(StepSummary, WhatAGpuUpdatesIsBesideTheWorkers) {
  StepSummary summary;
  for (int64_t step = 1; step <= 3; ++step) {
    StepMetrics row = SummaryRow(step, 2);
    row.busy_copy_seconds = 2;
    row.busy_device_update_seconds = 1.5;
    summary.Add(row);
  }
  const std::string text = summary.Text(2, kDriveBytesPerDay);
  EXPECT_THAT(text, HasSubstr("GPU copies 100%, updates on\n             the GPU 75%,\n"
                              "             updates 20% (on 2 threads"));
  for (const auto& line : absl::StrSplit(text, '\n')) EXPECT_LE(std::string(line).size(), 80u);
}

TEST(StepSummary, APredictionAtTheDisksOwnRatesIsShownWhereItDiffers) {
  StepSummary summary;
  for (int64_t step = 1; step <= 5; ++step) {
    StepMetrics row = SummaryRow(step, step == 1 ? 100 : 2);
    row.forecast = Predicted();
    summary.Add(row);
  }
  // Of the steps that count.
  EXPECT_EQ(summary.observed_rates().read_bytes, 4u * 14'000'000);
  EXPECT_EQ(summary.observed_rates().written_bytes, 4u * 12'000'000);
  EXPECT_DOUBLE_EQ(summary.observed_rates().busy_seconds, 4 * 1.8);
  summary.SetPredictedAtObservedRates(1.81);
  EXPECT_THAT(summary.Text(1, kDriveBytesPerDay), Not(HasSubstr("with the speed")));
  summary.SetPredictedAtObservedRates(2.2);
  const std::string text = summary.Text(1, kDriveBytesPerDay);
  EXPECT_THAT(
      text, HasSubstr("\n             (with the speed of disk in these steps: forecast 2.2 s)\n"));
  for (const auto& line : absl::StrSplit(text, '\n')) EXPECT_LE(std::string(line).size(), 80u);
}

TEST(StepSummary, OfSeveralRanksItSaysWhoseFiguresTheseAre) {
  StepSummary summary;
  for (int64_t step = 1; step <= 3; ++step) summary.Add(SummaryRow(step, 2));
  RankOptions ranks;
  ranks.rank = 1;
  ranks.ranks = 16;
  const std::string text = summary.Text(2, kDriveBytesPerDay, ranks);
  EXPECT_THAT(text, HasSubstr("\n  ranks      16; from \"moved\" on, all but the step's time is of "
                              "rank 1"));
  for (const auto& line : absl::StrSplit(text, '\n')) EXPECT_LE(std::string(line).size(), 80u);
}

TEST(StepSummary, LeavesOutWhatThereIsNot) {
  StepSummary none;
  EXPECT_EQ(none.Text(1, kDriveBytesPerDay), "");
  EXPECT_EQ(none.median_seconds(), 0);
  StepSummary summary;
  StepMetrics row;
  row.step = 1;
  row.seconds = 3;
  row.busy_compute_seconds = 3;
  summary.Add(row);
  EXPECT_DOUBLE_EQ(summary.median_seconds(), 3);  // the only one counts
  const std::string text = summary.Text(1, kDriveBytesPerDay);
  EXPECT_THAT(text, HasSubstr("waited     hardly"));
  EXPECT_THAT(text, HasSubstr("(on 1 thread of"));
  for (const char* absent : {"forecast", "limits", "disk", "traffic", "wear", "commits"}) {
    EXPECT_THAT(text, Not(HasSubstr(absent)));
  }
}

TEST(StepSummary, ADevicesCopiesAreThere) {
  StepSummary summary;
  for (int64_t step = 1; step <= 5; ++step) {
    StepMetrics row = SummaryRow(step, 2);
    row.forecast = Predicted();
    row.busy_copy_seconds = 1.4;
    row.stall_copy_seconds = 0.5;
    row.copies_to_device = {1000, 1.0};
    row.copies_to_host = {500, 0.75};
    summary.Add(row);
  }
  EXPECT_EQ(summary.observed_rates().to_device.bytes, 4000u);
  EXPECT_DOUBLE_EQ(summary.observed_rates().to_host.seconds, 3);
  summary.SetPredictedAtObservedRates(2.2);
  const std::string text = summary.Text(1, kDriveBytesPerDay);
  EXPECT_THAT(text, HasSubstr(", disk 90%, GPU copies 70%,\n             updates"));
  EXPECT_THAT(text, HasSubstr("GPU copies 0.5 s (25%)"));
  EXPECT_THAT(text, HasSubstr("(with the speed of disk, GPU copies in these steps: forecast"));
  for (const auto& line : absl::StrSplit(text, '\n')) EXPECT_LE(std::string(line).size(), 80u);
}

TEST(StepSummary, WhatOtherRanksTookIsThere) {
  StepSummary summary;
  for (int64_t step = 1; step <= 5; ++step) {
    StepMetrics row = SummaryRow(step, 2);
    row.collective_bytes = 6 << 20;
    row.busy_collective_seconds = 1.5;
    row.stall_collective_seconds = 0.4;
    row.forecast = Predicted();
    for (PhaseForecast& phase : row.forecast->phases) phase.binding = Resource::kCollective;
    row.binding_seconds = 1.5;
    summary.Add(row);
  }
  EXPECT_DOUBLE_EQ(summary.observed_rates().collective_seconds, 6);
  EXPECT_EQ(summary.observed_rates().steps, 4);
  summary.SetPredictedAtObservedRates(2.2);
  const std::string text = summary.Text(1, kDriveBytesPerDay);
  EXPECT_THAT(text, HasSubstr("exchanges 0.4 s (20%)"));
  EXPECT_THAT(text, HasSubstr("sent       6 MiB a step to other ranks"));
  EXPECT_THAT(text, HasSubstr("exchanges took 75% of the step"));
  EXPECT_THAT(text,
              HasSubstr("(with the speed of disk, exchanges in these steps: forecast 2.2 s)"));
  EXPECT_THAT(text, HasSubstr("\n  limits     exchanges; busy 75% of the step\n"));
  for (const auto& line : absl::StrSplit(text, '\n')) EXPECT_LE(std::string(line).size(), 80u);
}

}  // namespace
}  // namespace spillway
