// Random changes to training pictures: crops and mirroring. A function of (seed, draw), so it is
// the same on resume, on any rank and in any placement.
#pragma once

#include <cstdint>

#include "engine/media/picture.h"

namespace spillway {

enum class Augment {
  kNone,
  // A random crop of the original size from the picture with a black border of an eighth of a side
  // (4 for CIFAR), mirrored with probability 1/2.
  kCropFlip,
};

struct AugmentKey {
  uint64_t seed = 0;
  int64_t draw = 0;  // index among all draws of the run (Dataset::Draw)
};

Picture CropAndFlip(const Picture& picture, const AugmentKey& key);

}  // namespace spillway
