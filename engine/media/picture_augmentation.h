// What training changes about a picture, at random: where it is cut, and which side is left.
// A function of (seed, draw), so the same on resume, on any rank and in any placement.
#pragma once

#include <cstdint>

#include "engine/media/picture.h"

namespace spillway {

enum class Augment {
  kNone,
  // Cut somewhere out of the picture with black points around it, an eighth of a side wide (of
  // CIFAR's four), in its own size; and mirrored, or not.
  kCropFlip,
};

struct AugmentKey {
  uint64_t seed = 0;
  int64_t draw = 0;  // of all that the run draws (Dataset::Draw)
};

Picture CropAndFlip(const Picture& picture, const AugmentKey& key);

}  // namespace spillway
