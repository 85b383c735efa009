#include "engine/numeric/optimizer_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

using Masters = OptimizerSpec::Masters;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StatePlanes, FollowDTypeAndOptimizer) {
  const OptimizerSpec adamw;
  EXPECT_THAT(StatePlanes(adamw, DType::kBFloat16),
              ElementsAre(PlaneSpec{Plane::kWeight, 2}, PlaneSpec{Plane::kResidual, 2},
                          PlaneSpec{Plane::kExpAvg, 4}, PlaneSpec{Plane::kExpAvgSq, 4}));
  EXPECT_THAT(StatePlanes(adamw, DType::kFloat16),
              ElementsAre(PlaneSpec{Plane::kWeight, 2}, PlaneSpec{Plane::kMaster, 4},
                          PlaneSpec{Plane::kExpAvg, 4}, PlaneSpec{Plane::kExpAvgSq, 4}));
  OptimizerSpec sgd = {.kind = OptimizerSpec::Kind::kSgd};
  EXPECT_THAT(StatePlanes(sgd, DType::kFloat32), ElementsAre(PlaneSpec{Plane::kWeight, 4}));
  sgd.momentum = 0.9;
  EXPECT_THAT(StatePlanes(sgd, DType::kFloat32),
              ElementsAre(PlaneSpec{Plane::kWeight, 4}, PlaneSpec{Plane::kMomentum, 4}));
}

TEST(StatePlanes, MomentsOf8BitsHaveScales) {
  EXPECT_THAT(
      StatePlanes({.moments = MomentFormat::kEightBit}, DType::kBFloat16),
      ElementsAre(PlaneSpec{Plane::kWeight, 2}, PlaneSpec{Plane::kResidual, 2},
                  PlaneSpec{Plane::kExpAvg, 1}, PlaneSpec{Plane::kExpAvgScale, 4, 256},
                  PlaneSpec{Plane::kExpAvgSq, 1}, PlaneSpec{Plane::kExpAvgSqScale, 4, 256}));
  EXPECT_THAT(StatePlanes({.kind = OptimizerSpec::Kind::kSgd, .moments = MomentFormat::kEightBit},
                          DType::kFloat32),
              ElementsAre(PlaneSpec{Plane::kWeight, 4}));
}

TEST(StatePlanes, SecondMomentsOfFp8Have16Bits) {
  EXPECT_THAT(StatePlanes({.moments = MomentFormat::kFloat8}, DType::kFloat32),
              ElementsAre(PlaneSpec{Plane::kWeight, 4}, PlaneSpec{Plane::kExpAvg, 1},
                          PlaneSpec{Plane::kExpAvgScale, 4, 256}, PlaneSpec{Plane::kExpAvgSq, 2},
                          PlaneSpec{Plane::kExpAvgSqScale, 4, 256}));
  EXPECT_THAT(StatePlanes({.kind = OptimizerSpec::Kind::kLion, .moments = MomentFormat::kFloat8},
                          DType::kFloat32),
              ElementsAre(PlaneSpec{Plane::kWeight, 4}, PlaneSpec{Plane::kExpAvg, 1},
                          PlaneSpec{Plane::kExpAvgScale, 4, 256}));
}

TEST(StatePlanes, MastersOf24BitsHaveAResidualOf8) {
  EXPECT_THAT(StatePlanes({.kind = OptimizerSpec::Kind::kSgd, .masters = Masters::k24Bit},
                          DType::kBFloat16),
              ElementsAre(PlaneSpec{Plane::kWeight, 2}, PlaneSpec{Plane::kResidual, 1}));
  EXPECT_TRUE(CheckMasters({.masters = Masters::k24Bit}, DType::kBFloat16).ok());
  EXPECT_THAT(std::string(CheckMasters({.masters = Masters::k24Bit}, DType::kFloat16).message()),
              HasSubstr("--master 24bit: such a master completes a weight in bf16"));
}

TEST(StatePlanes, WithoutMastersWeightsAreAlone) {
  EXPECT_THAT(StatePlanes({.moments = MomentFormat::kBFloat16, .masters = Masters::kNone},
                          DType::kBFloat16),
              ElementsAre(PlaneSpec{Plane::kWeight, 2}, PlaneSpec{Plane::kExpAvg, 2},
                          PlaneSpec{Plane::kExpAvgSq, 2}));
  EXPECT_TRUE(CheckMasters({.masters = Masters::kNone}, DType::kBFloat16).ok());
  EXPECT_TRUE(CheckMasters({}, DType::kFloat16).ok());
  for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
    EXPECT_THAT(std::string(CheckMasters({.masters = Masters::kNone}, dtype).message()),
                HasSubstr("--dtype bf16"));
  }
}

TEST(StatePlanes, AdafactorKeepsNone) {
  EXPECT_THAT(StatePlanes({.kind = OptimizerSpec::Kind::kAdafactor}, DType::kBFloat16),
              ElementsAre(PlaneSpec{Plane::kWeight, 2}, PlaneSpec{Plane::kResidual, 2}));
}

}  // namespace
}  // namespace spillway
