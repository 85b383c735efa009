#include "engine/report/metrics.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "engine/run/metrics_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

TEST(ParseRow, TakesAnObjectWithAStepAndNothingElse) {
  EXPECT_EQ(ParseRow("{\"step\":2,\"loss\":null}\n")["step"], 2);
  for (const char* line : {"", "[]", "7", "{}", "{\"step\":\"1\"}", "{\"step\":1.0}", "\xff",
                           "{\"step\":2,\"lo", "{\"step\":18446744073709551615}"}) {
    EXPECT_TRUE(ParseRow(line).is_null()) << line;
  }
}

using testing::ElementsAre;

class MetricsLogTest : public testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  std::string Contents() const {
    std::ifstream file(path_, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // The steps that a run keeps which goes on after `last_step`.
  std::vector<int64_t> Kept(int64_t last_step) {
    std::vector<int64_t> steps;
    const auto log = MetricsLog::Open(path_, last_step, [&](const nlohmann::json& row) {
      steps.push_back(row["step"].get<int64_t>());
    });
    EXPECT_TRUE(log.ok()) << log.status();
    return steps;
  }

  const std::string path_ = testing::TempDir() + "/metrics.jsonl";
};

TEST_F(MetricsLogTest, ARunThatGoesOnKeepsItsRowsAndDropsLaterOnes) {
  Write("{\"step\":0}\n{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  EXPECT_THAT(Kept(2), ElementsAre(0, 1, 2));
  EXPECT_EQ(Contents(), "{\"step\":0}\n{\"step\":1}\n{\"step\":2}\n");
  EXPECT_THAT(Kept(5), ElementsAre(0, 1, 2));
  EXPECT_THAT(Kept(-1), ElementsAre());
  EXPECT_EQ(Contents(), "");
}

TEST_F(MetricsLogTest, KnowsWhichRowWasTheLast) {
  Write("{\"step\":1}\n{\"step\":7}\n{\"step\":9,\"lo");
  EXPECT_EQ((*MetricsLog::Open(path_, 1))->step_before(), 7);
  EXPECT_EQ((*MetricsLog::Open(path_, 1))->step_before(), 1);
  Write("");
  EXPECT_EQ((*MetricsLog::Open(path_, 1))->step_before(), -1);
}

TEST_F(MetricsLogTest, ALineCutShortIsNoRowAndGoes) {
  Write("{\"step\":1}\n{\"step\":2,\"lo");
  EXPECT_THAT(Kept(9), ElementsAre(1));
  EXPECT_EQ(Contents(), "{\"step\":1}\n");
  // Whole but for its newline: the next row would stand on the same line.
  Write("{\"step\":1}\n{\"step\":2}");
  EXPECT_THAT(Kept(9), ElementsAre(1));
  Write(std::string("{\"step\":1}\n\0\0\0\n", 15));
  EXPECT_THAT(Kept(9), ElementsAre(1));
}

TEST_F(MetricsLogTest, RowsFollowWhatWasKept) {
  Write("{\"step\":1}\n{\"step\":2}\n");
  auto log = MetricsLog::Open(path_, 1);
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_EQ((*log)->Append({{"step", 2}, {"loss", 0.5}}), absl::OkStatus());
  ASSERT_EQ((*log)->Sync(), absl::OkStatus());
  EXPECT_EQ(Contents(), "{\"step\":1}\n{\"loss\":0.5,\"step\":2}\n");
}

TEST_F(MetricsLogTest, ALinkIsNotFollowed) {
  const std::string elsewhere = testing::TempDir() + "/elsewhere";
  std::ofstream(elsewhere) << "precious\n";
  std::filesystem::remove(path_);
  std::filesystem::create_symlink(elsewhere, path_);
  EXPECT_FALSE(MetricsLog::Open(path_, 1).ok());
  EXPECT_EQ(std::filesystem::file_size(elsewhere), 9u);
  std::filesystem::remove(path_);
}

TEST(EvaluationMetrics, AreARow) {
  EvaluationMetrics metrics;
  metrics.step = 20;
  metrics.loss = 2;
  metrics.tokens = 300;
  metrics.seconds = 0.5;
  metrics.best = true;
  metrics.best_step = 20;
  const nlohmann::json row = ToJson(metrics);
  EXPECT_EQ(row["perplexity"], std::exp(2.0));
  metrics.loss = 800;  // e to that is beyond a double
  EXPECT_EQ(ToJson(metrics)["perplexity"], nullptr);
  EXPECT_EQ(ToJson(metrics)["loss"], 800);
  metrics.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(ToJson(metrics)["loss"], nullptr);
  EXPECT_FALSE(ToJson(metrics).contains("metric"));
  metrics.quality = {{"bleu", 30}};
  metrics.metric = "bleu";
  EXPECT_EQ(ToJson(metrics)["bleu"], 30);
  EXPECT_EQ(ToJson(metrics)["metric"], "bleu");
  EXPECT_EQ(metrics.metric_value(), 30);
  EXPECT_TRUE(ToJson(metrics).contains("perplexity"));
  metrics.has_perplexity = false;
  EXPECT_FALSE(ToJson(metrics).contains("perplexity"));
  EXPECT_EQ(row["tokens"], 300);
  EXPECT_EQ(row["labels"], 0);
  EXPECT_EQ(BesideLossText(2, {}), ", perplexity 7.389");
  EXPECT_EQ(BesideLossText(800, {}), "");
}

TEST(StepMetrics, SpeedIsInTokensOrOfWhatHasNoneInSamples) {
  StepMetrics metrics;
  metrics.tokens = 300;
  metrics.labels = 100;
  metrics.samples = 4;
  metrics.seconds = 2;
  const nlohmann::json row = ToJson(metrics);
  EXPECT_EQ(row["tokens"], 300);
  EXPECT_EQ(row["labels"], 100);
  EXPECT_EQ(row["samples"], 4);
  EXPECT_EQ(row["tokens_per_second"], 150);
  EXPECT_EQ(row["samples_per_second"], 2);
  EXPECT_EQ(ThroughputOf(metrics, "texts").per_second, 150);
  EXPECT_EQ(ThroughputOf(metrics, "texts").unit, "tokens");
  metrics.tokens = 0;
  EXPECT_EQ(ThroughputOf(metrics, "pictures").per_second, 2);
  EXPECT_EQ(ThroughputOf(metrics, "pictures").unit, "pictures");
  metrics.seconds = 0;
  EXPECT_EQ(ThroughputOf(metrics, "pictures").per_second, 0);
}

}  // namespace
}  // namespace spillway
