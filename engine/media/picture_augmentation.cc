#include "engine/media/picture_augmentation.h"

#include <algorithm>

#include "engine/numeric/random.h"

namespace spillway {
namespace {

constexpr int64_t kSidePerBorder = 8;
// A stream apart from parameters' (hashes of names) and masks' (another key).
constexpr uint64_t kAugmentStream = 0x70696374'00000000;

}  // namespace

Picture CropAndFlip(const Picture& picture, const AugmentKey& key) {
  const uint64_t bits = RandomBits(key.seed, kAugmentStream, static_cast<uint64_t>(key.draw));
  const int64_t width = picture.width, height = picture.height, channels = picture.channels;
  // From -border to border.
  const auto shift = [](uint64_t random, int64_t side) {
    const int64_t border = std::max<int64_t>(1, side / kSidePerBorder);
    return static_cast<int64_t>(random % static_cast<uint64_t>(2 * border + 1)) - border;
  };
  const int64_t across = shift(bits & 0xffffff, width);
  const int64_t down = shift(bits >> 24 & 0xffffff, height);
  const bool flip = (bits >> 48 & 1) != 0;
  Picture out{width, height, channels, std::vector<uint8_t>(picture.points.size())};
  for (int64_t y = 0; y < height; ++y) {
    if (y + down < 0 || y + down >= height) continue;
    for (int64_t x = 0; x < width; ++x) {
      const int64_t from = x + across;
      if (from < 0 || from >= width) continue;
      const int64_t to = flip ? width - 1 - x : x;
      std::copy_n(&picture.points[((y + down) * width + from) * channels], channels,
                  &out.points[(y * width + to) * channels]);
    }
  }
  return out;
}

}  // namespace spillway
