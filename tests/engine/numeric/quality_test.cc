#include "engine/numeric/quality.h"

#include <cmath>
#include <fstream>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace spillway {
namespace {

using nlohmann::json;

// Made by tests/golden/make_quality.py: [labels, predictions, right ones, measures] each.
json GoldenQuality(const char* kind) {
  std::ifstream in(SPILLWAY_SOURCE_DIR "/tests/golden/quality.json");
  return json::parse(in)[kind];
}

std::vector<Judgement> JudgementsOf(const json& golden) {
  std::vector<Judgement> judgements;
  for (size_t i = 0; i < golden[1].size(); ++i) judgements.push_back({golden[1][i], golden[2][i]});
  return judgements;
}

void ExpectMeasures(const std::vector<QualityMeasure>& found, const json& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const QualityMeasure& measure : found) {
    const json& value = expected[measure.name];
    if (value.is_null()) {
      EXPECT_TRUE(std::isnan(measure.value)) << measure.name;
    } else {
      EXPECT_NEAR(measure.value, value.get<double>(), 1e-9) << measure.name;
    }
  }
}

TEST(Quality, OfSingleLabelsIsScikitLearns) {
  for (const json& golden : GoldenQuality("single")) {
    SCOPED_TRACE(golden.dump());
    ExpectMeasures(SingleLabelQuality(JudgementsOf(golden), golden[0]), golden[3]);
  }
}

TEST(Quality, OfManyLabelsIsScikitLearns) {
  for (const json& golden : GoldenQuality("multi")) {
    SCOPED_TRACE(golden.dump());
    ExpectMeasures(MultiLabelQuality(JudgementsOf(golden), golden[0]), golden[3]);
  }
}

TEST(Quality, OfTokensIsSeqevals) {
  for (const json& golden : GoldenQuality("tokens")) {
    SCOPED_TRACE(golden.dump());
    ExpectMeasures(TokenQuality(JudgementsOf(golden), golden[0]), golden[3]);
  }
}

TEST(Quality, OfCountsIsTheirAccuracy) {
  const auto found = CountedQuality(std::vector<Judgement>{{1, 2}, {0, 0}, {2, 2}}, 0);
  EXPECT_EQ(found[0].value, 0.75);
  EXPECT_EQ(found[1].name, "perplexity");
  EXPECT_EQ(found[1].value, 1);
  EXPECT_TRUE(std::isnan(CountedQuality({}, 0)[0].value));
}

TEST(Quality, OfNumbersIsScipys) {
  for (const json& golden : GoldenQuality("regression")) {
    SCOPED_TRACE(golden.dump());
    ExpectMeasures(RegressionQuality(JudgementsOf(golden)), golden[3]);
  }
}

TEST(Quality, EveryMeasureKnowsWhichWayIsBetter) {
  EXPECT_TRUE(IsBetter("loss", 1, 2));
  EXPECT_FALSE(IsBetter("loss", 2, 2));
  EXPECT_TRUE(IsBetter("cer", 0.1, 0.2));
  EXPECT_TRUE(IsBetter("bleu", 30, 20));
  EXPECT_FALSE(IsBetter("bleu", 20, 20));
  EXPECT_FALSE(IsBetter("f1", std::nan(""), 0));
  EXPECT_EQ(ValueOf({{"f1", 0.5}, {"accuracy", 1}}, "accuracy"), 1);
  EXPECT_TRUE(std::isnan(ValueOf({{"f1", 0.5}}, "bleu")));
}

TEST(Quality, WithoutAnythingToMeasureThereIsNoNumber) {
  EXPECT_TRUE(std::isnan(SingleLabelQuality({}, 2)[0].value));
  EXPECT_TRUE(std::isnan(RegressionQuality({})[0].value));
  const std::vector<Judgement> constant = {{1, 1}, {1, 2}};
  EXPECT_TRUE(std::isnan(RegressionQuality(constant)[0].value));
  EXPECT_EQ(QualityText({{"accuracy", 0.5}, {"f1", 1}}), "accuracy 0.5000, f1 1.0000");
}

}  // namespace
}  // namespace spillway
