#include "swap/plan/state_layout.h"

#include <random>
#include <set>

#include "gtest/gtest.h"

namespace spillway {
namespace {

std::vector<PlaneSpec> Bf16Adam() {
  return {{Plane::kWeight, 2}, {Plane::kResidual, 2}, {Plane::kExpAvg, 4}, {Plane::kExpAvgSq, 4}};
}

TEST(StateLayout, UnitsArePaddedAndCutIntoTiles) {
  const StateLayout layout({{"a", 10000}, {"b", 4096}, {"c", 1}}, Bf16Adam(), 2, 4096);
  EXPECT_EQ(layout.PaddedParameters(0), 10240);
  EXPECT_EQ(layout.NumTiles(0), 3);
  EXPECT_EQ(layout.TileParameters(0, 0), 4096);
  EXPECT_EQ(layout.TileParameters(0, 2), 2048);
  EXPECT_EQ(layout.TileBegin(2), 8192);
  EXPECT_EQ(layout.NumTiles(1), 1);
  EXPECT_EQ(layout.PaddedParameters(2), 2048);
  EXPECT_EQ(layout.TotalPaddedParameters(), 16384);
}

TEST(StateLayout, PlanesOfATileLieSideBySide) {
  const StateLayout layout({{"a", 10000}}, Bf16Adam(), 2, 4096);
  const uint64_t padded = layout.PaddedParameters(0);
  EXPECT_EQ(layout.UnitPlanesBytes(0, 0, 4), 12 * padded);
  EXPECT_EQ(layout.UnitPlanesBytes(0, 1, 3), 6 * padded);
  EXPECT_EQ(layout.UnitPlanesBytes(0, 2, 2), 0);
  EXPECT_EQ(layout.PlaneOffset(0, 0, 0), 0);
  EXPECT_EQ(layout.PlaneOffset(0, 0, 2), 4096 * 4);
  EXPECT_EQ(layout.PlaneOffset(0, 2, 2), 2048 * 4);
  EXPECT_EQ(layout.PlaneBytes(0, 2, 3), 2048 * 4);
  EXPECT_EQ(layout.TileBytes(0, 0), 4096 * 12);
  EXPECT_EQ(layout.GradientBytes(0, 2), 2048 * 2);
  EXPECT_EQ(layout.MaxTileBytes(), 4096 * 12);
  EXPECT_EQ(layout.MaxGradientTileBytes(), 4096 * 2);
}

TEST(StateLayout, EveryPlaneOfATileIsWholeBlocks) {
  const StateLayout layout(
      {{"a", 10000}}, {{Plane::kWeight, 2}, {Plane::kExpAvg, 1}, {Plane::kExpAvgScale, 4, 256}}, 2,
      4096);
  EXPECT_EQ(layout.PlaneBytes(0, 0, 1), 4096);
  EXPECT_EQ(layout.PlaneBytes(0, 2, 1), 4096);  // of 2048 parameters
  EXPECT_EQ(layout.PlaneBytes(0, 0, 2), 4096);  // of 16 scales
  EXPECT_EQ(layout.PlaneOffset(0, 2, 2), 2 * 4096);
  EXPECT_EQ(layout.TileBytes(0, 0), 4 * 4096);
  EXPECT_EQ(layout.TileBytes(0, 2), 3 * 4096);
  EXPECT_EQ(layout.PlaneBegin(2, 2), 2 * 4096);
  EXPECT_EQ(layout.UnitPlanesBytes(0, 1, 3), 6 * 4096);
  EXPECT_EQ(layout.UnitBytes(0), 11 * 4096);
  EXPECT_EQ(layout.planes()[2].BytesOf(512), 8);
}

TEST(StateLayout, AFrozenUnitHasItsWeightsAlone) {
  const StateLayout layout({{"a", 4096}, {"b", 10000, /*frozen=*/true}}, Bf16Adam(), 2, 8192);
  EXPECT_EQ(layout.NumPlanes(0), 4);
  EXPECT_EQ(layout.NumPlanes(1), 1);
  EXPECT_EQ(layout.TileBytes(1, 0), 8192 * 2);
  EXPECT_EQ(layout.UnitBytes(1), 10240 * 2);
  EXPECT_EQ(layout.TotalBytes(), 4096 * 12 + 10240 * 2);
  EXPECT_EQ(layout.MaxTileBytes(), 4096 * 12);
  EXPECT_EQ(layout.MaxGradientTileBytes(), 4096 * 2);
  EXPECT_EQ(layout.MaxPlaneTileBytes(0), 8192 * 2);
  EXPECT_EQ(layout.MaxPlaneTileBytes(1), 4096 * 2);
}

TEST(StateLayout, AUnitWithoutParametersHasNoTiles) {
  const StateLayout layout({{"head", 0}}, Bf16Adam(), 2);
  EXPECT_EQ(layout.NumTiles(0), 0);
  EXPECT_EQ(layout.MaxTileBytes(), 0);
  EXPECT_EQ(layout.MaxGradientTileBytes(), 0);
}

TEST(StateLayout, PlanesAreFoundByName) {
  const StateLayout layout({}, Bf16Adam(), 2);
  EXPECT_EQ(layout.PlaneIndex(Plane::kWeight), 0);
  EXPECT_EQ(layout.PlaneIndex(Plane::kExpAvgSq), 3);
  EXPECT_EQ(layout.PlaneIndex(Plane::kMaster), -1);
  EXPECT_EQ(layout.PlaneIndex(Plane::kGradient), -1);
  std::set<absl::string_view> names;
  for (int i = 0; i <= static_cast<int>(Plane::kGradient); ++i) {
    names.insert(PlaneName(static_cast<Plane>(i)));
  }
  EXPECT_EQ(names, (std::set<absl::string_view>{"weight", "residual", "master", "exp_avg",
                                                "exp_avg_sq", "momentum", "grad"}));
}

TEST(StateLayout, TilesCoverEveryUnitInWholeBlocks) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const uint64_t tile_parameters = kParameterAlignment * (1 + random() % 64);
    const StateLayout layout({{"u", random() % 2000000}}, Bf16Adam(), 2, tile_parameters);
    uint64_t covered = 0;
    for (int tile = 0; tile < layout.NumTiles(0); ++tile) {
      EXPECT_EQ(layout.TileBegin(tile), covered);
      covered += layout.TileParameters(0, tile);
      uint64_t offset = 0;
      for (int plane = 0; plane < layout.num_planes(); ++plane) {
        EXPECT_EQ(layout.PlaneOffset(0, tile, plane), offset);
        EXPECT_GT(layout.PlaneBytes(0, tile, plane), 0);
        EXPECT_EQ(layout.PlaneBytes(0, tile, plane) % 4096, 0);
        offset += layout.PlaneBytes(0, tile, plane);
      }
      EXPECT_EQ(layout.TileBytes(0, tile), offset);
      EXPECT_LE(offset, layout.MaxTileBytes());
    }
    EXPECT_EQ(covered, layout.PaddedParameters(0));
    EXPECT_LT(covered - layout.units()[0].parameters, kParameterAlignment);
  }
}

TEST(StateLayoutDeathTest, WrongLayoutsAreOurMistake) {
  EXPECT_DEATH(StateLayout({}, {{Plane::kExpAvg, 4}}, 2), "");
  EXPECT_DEATH(StateLayout({}, {{Plane::kWeight, 2}, {Plane::kGradient, 2}}, 2), "");
  EXPECT_DEATH(StateLayout({}, {{Plane::kWeight, 2}, {Plane::kWeight, 2}}, 2), "");
  EXPECT_DEATH(StateLayout({}, {{Plane::kWeight, 1}}, 2), "");
  EXPECT_DEATH(StateLayout({}, Bf16Adam(), 2, 3000), "");
  EXPECT_DEATH(StateLayout({{"a", 1}}, Bf16Adam(), 2).TileParameters(0, 1), "");
}

}  // namespace
}  // namespace spillway
