#include "engine/model/graph_plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// An embedding whose graph takes nothing, four like layers, and the loss.
GraphCosts FourLayers() {
  GraphCosts costs;
  costs.bytes = {0, 1600, 1600, 1600, 1600, 0};
  costs.seconds_saved = {0.1, 2, 2, 2, 2, 0};
  return costs;
}

std::vector<Tier> OnDevice(int units) { return std::vector<Tier>(units, Tier::kDevice); }

TEST(GraphPlan, LikeLayersAreKeptFromTheLastOn) {
  const GraphPlan plan = PlanGraphs(OnDevice(6), FourLayers(), 3400);
  EXPECT_THAT(plan.keeps, ElementsAre(true, false, false, true, true, false));
  EXPECT_EQ(plan.bytes, 3200u);
  EXPECT_EQ(plan.kept(), 3);
  EXPECT_DOUBLE_EQ(plan.seconds_saved, 4.1);
}

TEST(GraphPlan, ASixteenthStaysFreeToTheByte) {
  EXPECT_EQ(PlanGraphs(OnDevice(6), FourLayers(), 3399).bytes, 1600u);
  EXPECT_EQ(PlanGraphs(OnDevice(6), FourLayers(), 1700).bytes, 1600u);
  EXPECT_EQ(PlanGraphs(OnDevice(6), FourLayers(), 1699).bytes, 0u);
}

TEST(GraphPlan, WhatTheAllocatorReusesIsNotSpent) {
  GraphCosts costs = FourLayers();
  costs.reuse_bytes = 1700;
  EXPECT_EQ(PlanGraphs(OnDevice(6), costs, 3400).bytes, 1600u);
  EXPECT_EQ(PlanGraphs(OnDevice(6), costs, 1000).bytes, 0u);
}

TEST(GraphPlan, AByteGoesWhereItSavesMost) {
  GraphCosts costs;
  costs.bytes = {1000, 4000, 1000, 3000, 0};
  costs.seconds_saved = {1, 8, 3, 1, 0};
  // 3 a thousand bytes, then 2, then 1; what does not fit leaves room for what does.
  EXPECT_THAT(PlanGraphs(OnDevice(5), costs, 1100).keeps,
              ElementsAre(false, false, true, false, false));
  EXPECT_THAT(PlanGraphs(OnDevice(5), costs, 5400).keeps,
              ElementsAre(false, true, true, false, false));
  EXPECT_THAT(PlanGraphs(OnDevice(5), costs, 4300).keeps,
              ElementsAre(true, false, true, false, false));
}

TEST(GraphPlan, TheLossIsNeverKeptAndUnknownCostsKeepNothing) {
  EXPECT_THAT(PlanGraphs(OnDevice(6), FourLayers(), UINT64_MAX / 2).keeps,
              ElementsAre(true, true, true, true, true, false));
  EXPECT_THAT(PlanGraphs(OnDevice(3), {}, UINT64_MAX / 2).keeps, ElementsAre(false, false, false));
}

TEST(GraphPlan, TheSummarySaysHowManyAndWhatItTakes) {
  EXPECT_THAT(PlanGraphs(OnDevice(6), FourLayers(), 3400).Summary(),
              HasSubstr("2 of 5 layers; the others' activations take 3200 B"));
  EXPECT_THAT(PlanGraphs(OnDevice(6), FourLayers(), 1 << 20).Summary(),
              HasSubstr("none of 5 layers; their activations"));
  EXPECT_THAT(PlanGraphs(OnDevice(6), {}, 1 << 20).Summary(),
              HasSubstr("5 layers before their backward"));
}

}  // namespace
}  // namespace spillway
