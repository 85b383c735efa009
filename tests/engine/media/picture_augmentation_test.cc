#include "engine/media/picture_augmentation.h"

#include <set>

#include "gtest/gtest.h"

namespace spillway {
namespace {

// Each point has a number of its own, above 0.
Picture Numbered(int64_t side) {
  Picture picture{side, side, 1, {}};
  for (int64_t i = 0; i < side * side; ++i) picture.points.push_back(static_cast<uint8_t>(i + 1));
  return picture;
}

TEST(PictureAugmentation, CutsAndMirrorsByItsKeyAlone) {
  constexpr int64_t kSide = 15;  // its border is one point wide
  const Picture picture = Numbered(kSide);
  std::set<std::vector<uint8_t>> made;
  for (int64_t sample = 0; sample < 200; ++sample) {
    const Picture found = CropAndFlip(picture, {7, sample});
    EXPECT_EQ(found.points, CropAndFlip(picture, {7, sample}).points);
    ASSERT_EQ(found.points.size(), picture.points.size());
    // The middle is where one of 3 x 3 points was, and its neighbours follow it.
    const int64_t middle = kSide / 2 * kSide + kSide / 2;
    const int64_t from = found.points[middle] - 1;
    const int64_t down = from / kSide - kSide / 2, across = from % kSide - kSide / 2;
    EXPECT_LE(std::abs(down), 1);
    EXPECT_LE(std::abs(across), 1);
    const int step = found.points[middle + 1] - found.points[middle];
    EXPECT_EQ(std::abs(step), 1);
    EXPECT_EQ(found.points[middle + kSide] - found.points[middle], kSide);
    made.insert(found.points);
  }
  EXPECT_EQ(made.size(), 18u) << "3 x 3 places, mirrored or not";
}

TEST(PictureAugmentation, EveryDrawAndSeedIsAnew) {
  const Picture picture = Numbered(16);
  const auto differs = [&](AugmentKey a, AugmentKey b) {
    int count = 0;
    for (int64_t i = 0; i < 32; ++i, ++a.draw, ++b.draw) {
      count += CropAndFlip(picture, a).points != CropAndFlip(picture, b).points;
    }
    return count;
  };
  EXPECT_GT(differs({1, 0}, {2, 0}), 20);
  EXPECT_GT(differs({1, 0}, {1, 1}), 20);
}

TEST(PictureAugmentation, CifarsBorderIsFourPointsAndBlack) {
  Picture white{32, 32, 3, std::vector<uint8_t>(32 * 32 * 3, 255)};
  int64_t most = 0;
  for (int64_t sample = 0; sample < 300; ++sample) {
    const Picture found = CropAndFlip(white, {1, sample});
    int64_t black = 0;
    for (int64_t y = 0; y < 32; ++y) black += found.points[(y * 32 + 16) * 3] == 0;
    most = std::max(most, black);
  }
  EXPECT_EQ(most, 4);
}

}  // namespace
}  // namespace spillway
