#include "engine/report/report_series.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::Optional;

nlohmann::json Row(int64_t step, const nlohmann::json& loss) {
  return {{"step", step}, {"loss", loss}, {"stall_seconds", {{"disk", 0.25 * step}}}};
}

TEST(ReportSeries, FewRowsAreThereAsTheyAre) {
  ReportSeries series(&StepFields());
  for (int64_t step = 1; step <= 4; ++step) series.Add(Row(step, 10.0 / step));
  EXPECT_EQ(series.rows(), 4);
  EXPECT_EQ(series.rows_per_bucket(), 1);
  EXPECT_THAT(series.Steps(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(series.Means("stall_disk"), ElementsAre(0.25, 0.5, 0.75, 1.0));
  EXPECT_EQ(series.total("stall_disk").sum, 2.5);
  EXPECT_EQ(series.total("loss").low, 2.5);
  EXPECT_EQ(series.total("grad_norm").count, 0);
  const auto json = nlohmann::json::parse(series.Json());
  EXPECT_EQ(json["fields"]["loss"]["mean"], nlohmann::json({10, 5, 3.33333, 2.5}));
  EXPECT_FALSE(json["fields"]["loss"].contains("low"));
  EXPECT_FALSE(json["fields"].contains("grad_norm"));
}

TEST(ReportSeries, WhatIsNoNumberIsAGap) {
  ReportSeries series(&StepFields());
  series.Add(Row(1, 3));
  series.Add(Row(2, nullptr));
  series.Add({{"step", 3}, {"loss", "a lot"}, {"stall_seconds", 7}});
  series.Add({{"step", 4}, {"skipped", true}});
  EXPECT_THAT(series.Means("loss"),
              ElementsAre(Optional(3.0), std::nullopt, std::nullopt, std::nullopt));
  EXPECT_EQ(series.total("stall_disk").count, 2);
  EXPECT_EQ(series.total("skipped").sum, 1);
  EXPECT_EQ(nlohmann::json::parse(series.Json())["fields"]["loss"]["mean"],
            nlohmann::json({3, nullptr, nullptr, nullptr}));
  EXPECT_TRUE(nlohmann::json::accept(ReportSeries(&StepFields()).Json()));
}

TEST(ReportSeries, ManyRowsStayFewAndASpikeStaysInSight) {
  ReportSeries series(&StepFields());
  constexpr int64_t kRows = 200000, kSpike = 1236;
  double sum = 0;
  for (int64_t step = 1; step <= kRows; ++step) {
    const double loss = step == kSpike ? 99 : 2 + 1.0 / step;
    sum += loss;
    series.Add({{"step", step}, {"loss", loss}});
  }
  EXPECT_LE(series.buckets(), ReportSeries::kMostBuckets);
  EXPECT_GE(series.buckets(), ReportSeries::kMostBuckets / 2 - 1);
  EXPECT_EQ(series.rows(), kRows);
  EXPECT_EQ(series.Steps().back(), kRows);
  EXPECT_EQ(series.Steps().front(), series.rows_per_bucket());
  EXPECT_DOUBLE_EQ(series.total("loss").sum, sum);
  EXPECT_EQ(series.total("loss").high, 99);
  const std::string text = series.Json();
  EXPECT_LT(text.size(), 200000u);
  const auto loss = nlohmann::json::parse(text)["fields"]["loss"];
  const size_t bucket = (kSpike - 1) / series.rows_per_bucket();
  EXPECT_EQ(loss["high"][bucket], 99);
  EXPECT_LT(loss["low"][bucket], 2.1);
  EXPECT_LT(loss["high"][bucket + 1], 2.1);
  EXPECT_NEAR(loss["mean"][bucket], 2 + 97.0 / series.rows_per_bucket(), 0.01);
}

TEST(ReportSeries, MergedBucketsHoldTheMeanOfTheirRows) {
  ReportSeries series(&StepFields());
  // The first overflow comes with the row after kMostBuckets; the last bucket is half full.
  const int64_t rows = ReportSeries::kMostBuckets + 1;
  for (int64_t step = 1; step <= rows; ++step) series.Add(Row(step, step));
  EXPECT_EQ(series.rows_per_bucket(), 2);
  ASSERT_EQ(series.buckets(), ReportSeries::kMostBuckets / 2 + 1);
  EXPECT_EQ(series.Means("loss")[0], 1.5);
  EXPECT_EQ(series.Means("loss").back(), rows);
  EXPECT_EQ(series.Steps().back(), rows);
}

TEST(ReportSeries, TheMiddleOfTheMeans) {
  ReportSeries series(&StepFields());
  EXPECT_EQ(series.MedianOfMeans("loss"), 0);
  for (const double loss : {9.0, 1.0, 5.0, 2.0, 100.0}) series.Add(Row(series.rows() + 1, loss));
  EXPECT_EQ(series.MedianOfMeans("loss"), 5);
}

TEST(RunRows, TheBestEvaluationIsTheFirstOfTheLowest) {
  RunRows rows;
  EXPECT_FALSE(rows.best);
  rows.AddEvaluation({{"step", 0}, {"loss", nullptr}});
  EXPECT_FALSE(rows.best);
  for (const auto& [step, loss] : std::vector<std::pair<int, double>>{{5, 3}, {10, 2}, {15, 2}}) {
    rows.AddEvaluation({{"step", step}, {"loss", loss}});
  }
  EXPECT_EQ(rows.best->step, 10);
  EXPECT_EQ(rows.best->loss, 2);
}

// Also where another metric was asked for meanwhile.
TEST(RunRows, TheBestIsThatOfAllRowsWithItsMetric) {
  RunRows rows;
  const auto add = [&](int64_t step, double loss, double accuracy, const char* metric) {
    rows.AddEvaluation(
        {{"step", step}, {"loss", loss}, {"accuracy", accuracy}, {"metric", metric}});
  };
  add(1, 2, 0.5, "loss");
  add(2, 3, 0.6, "accuracy");
  EXPECT_EQ(rows.best->step, 2);
  add(3, 2.5, 0.7, "loss");
  EXPECT_EQ(rows.best->step, 1);
  EXPECT_FALSE(rows.WouldBeBest("accuracy", "", 0.55));
  EXPECT_EQ(rows.best->step, 2);
  EXPECT_TRUE(rows.WouldBeBest("f1", "", 0.1));
  EXPECT_FALSE(rows.best);
}

TEST(RunRows, OfOtherHeldOutDataTheBestBeginsAnew) {
  RunRows rows;
  const auto add = [&](int64_t step, double loss, const char* data) {
    nlohmann::json row = {{"step", step}, {"loss", loss}};
    if (data != nullptr) row["data"] = data;
    rows.AddEvaluation(row);
  };
  add(1, 2, nullptr);  // of an earlier version
  add(2, 3, "a");
  EXPECT_EQ(rows.best->step, 1);
  add(3, 1, "a");
  add(4, 5, "b");
  EXPECT_EQ(rows.best->step, 4);
  EXPECT_FALSE(rows.WouldBeBest("loss", "b", 6));
  EXPECT_TRUE(rows.WouldBeBest("loss", "a", 6));
  rows.AddEvaluation({{"step", 5}, {"loss", 4}, {"data", 7}});  // what no run writes
  EXPECT_EQ(rows.best->step, 5);
}

TEST(RunRows, AMetricThatNobodyKnowsNamesNoBest) {
  RunRows rows;
  rows.AddEvaluation({{"step", 1}, {"loss", 2}});
  for (const nlohmann::json& metric : std::vector<nlohmann::json>{"sparkle", 5, nullptr}) {
    for (const int64_t step : {2, 3}) {
      rows.AddEvaluation({{"step", step}, {"loss", 1}, {"metric", metric}, {"sparkle", 9}});
    }
  }
  EXPECT_EQ(rows.evaluations.rows(), 7);
  EXPECT_EQ(rows.best->step, 1);
}

TEST(SampleLog, OfManyEvaluationsTheFirstAndTheNewestStay) {
  SampleLog log;
  for (int64_t step = 0; step < 1000; ++step) {
    log.Add({{"step", step}, {"prompt", "a"}, {"text", std::string(10000, 'x')}, {"ended", 7}});
    log.Add({{"step", step}, {"prompt", 5}});
    ASSERT_LE(log.evaluations().size(), SampleLog::kMostEvaluations);
  }
  EXPECT_EQ(log.evaluations().front().step, 0);
  for (int64_t i = 1; i <= 16; ++i) {
    EXPECT_EQ(log.evaluations()[log.evaluations().size() - i].step, 1000 - i);
  }
  const SampleText& text = log.evaluations().back().texts[0];
  EXPECT_EQ(text.text.size(), SampleLog::kMostBytes);
  EXPECT_FALSE(text.ended);
  EXPECT_EQ(log.evaluations().back().texts[1].prompt, "");
}

}  // namespace
}  // namespace spillway
