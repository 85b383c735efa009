#include "engine/weights/master_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// Of which none is exact in bf16, and the last in nothing but fp32.
const std::vector<float> kMasters = {1 + 0x1p-15f, -3 - 0x1p-14f, 1 + 0x1p-20f};

struct Planes {
  std::vector<float> weight = std::vector<float>(4), rest = std::vector<float>(4);
  char* both[2] = {reinterpret_cast<char*>(weight.data()), reinterpret_cast<char*>(rest.data())};
  char* alone[2] = {reinterpret_cast<char*>(weight.data()), nullptr};
};

std::vector<float> Kept(WeightFormat format, bool with_rest) {
  Planes planes;
  char* const* const to = with_rest ? planes.both : planes.alone;
  EXPECT_TRUE(StoreMaster(format, kMasters.data(), 1, kMasters.size(), to));
  std::vector<float> loaded(kMasters.size());
  LoadMaster(format, to, 1, kMasters.size(), loaded.data());
  return loaded;
}

TEST(MasterWeights, ComeBackAsTheFormatKeepsThem) {
  for (const WeightFormat exact :
       {WeightFormat::kFloat32, WeightFormat::kBFloat16, WeightFormat::kFloat16}) {
    EXPECT_THAT(Kept(exact, true), ElementsAreArray(kMasters));
  }
  EXPECT_THAT(Kept(WeightFormat::kBFloat16Byte, true), ElementsAre(kMasters[0], kMasters[1], 1));
  EXPECT_THAT(Kept(WeightFormat::kBFloat16Alone, true), ElementsAre(1, -3, 1));
}

TEST(MasterWeights, OfAFrozenParameterAreItsWeights) {
  for (const WeightFormat format : {WeightFormat::kBFloat16, WeightFormat::kBFloat16Byte,
                                    WeightFormat::kBFloat16Alone, WeightFormat::kFloat16}) {
    EXPECT_THAT(Kept(format, false), ElementsAre(1, -3, 1));
  }
}

TEST(MasterWeights, AreRefusedWhereAWeightWouldNotBeFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float largest = std::numeric_limits<float>::max();  // rounds up to one in 24 bits as in 16
  const std::vector<std::pair<WeightFormat, float>> refused = {
      {WeightFormat::kFloat32, infinity},      {WeightFormat::kFloat32, std::nanf("")},
      {WeightFormat::kBFloat16, largest},      {WeightFormat::kBFloat16Byte, largest},
      {WeightFormat::kBFloat16Byte, infinity}, {WeightFormat::kBFloat16Byte, std::nanf("")},
      {WeightFormat::kBFloat16Alone, largest}, {WeightFormat::kFloat16, 65520}};
  for (const auto& [format, value] : refused) {
    Planes planes;
    EXPECT_FALSE(StoreMaster(format, &value, 0, 1, planes.both)) << int(format) << " " << value;
  }
}

}  // namespace
}  // namespace spillway
