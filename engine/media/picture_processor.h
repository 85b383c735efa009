// What a model is given of a picture: a part of it, resized, as numbers. Read from a
// preprocessor_config.json as transformers' image processors do it (ConvNextImageProcessor, which
// ResNet's checkpoints name, and those that resize, crop and normalise, such as ViT's and CLIP's).
// Pure functions of values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/strict_json.h"
#include "engine/media/picture.h"
#include "nlohmann/json.hpp"

namespace spillway {

enum class ResizeFilter { kNearest = 0, kBilinear = 2, kBicubic = 3 };  // Pillow's numbers

struct PictureProcessing {
  // First the picture is resized: its shorter side to so many points, the other in proportion, or
  // both of them to so many; or it whole to `size`, where that is 0.
  int64_t shorter_side = 0;
  bool keeps_proportions = true;
  ResizeFilter filter = ResizeFilter::kBicubic;
  // Then the middle of this size is taken.
  PictureSize size;
  // Then each channel is (value * scale - mean) / std.
  double scale = 1.0 / 255;
  std::vector<double> mean = {0.5}, std = {0.5};  // [channel]; of all where there is one
  nlohmann::json original = nullptr;              // the file's keys, where they mean the same
};

// Of a directory's preprocessor_config.json; none where it has no such file. `side` above 0:
// pictures get that many points a side instead, and what they are resized to before changes in
// proportion. kInvalidArgument, "FILE:LINE: ...", for what makes no sense or is not built.
absl::StatusOr<std::optional<PictureProcessing>> ReadPictureProcessing(const std::string& directory,
                                                                       int64_t side);
absl::StatusOr<PictureProcessing> ParsePictureProcessing(const JsonDocument& document,
                                                         int64_t side);

// Of pictures that are `side` x `side` already, or resized to that whole.
PictureProcessing PlainProcessing(int64_t side);

// The middle of pictures of any size, as ConvNextImageProcessor takes it.
PictureProcessing MiddleProcessing(int64_t side);

// A preprocessor_config.json that means the same to transformers and to ParsePictureProcessing.
nlohmann::json ToJson(const PictureProcessing& processing, int64_t channels);

// Resized and cropped.
Picture Fit(const PictureProcessing& processing, Picture picture);

// As Pillow's passes do it, bit for bit (13 and later may take the second first): over as many
// points as the scale asks for, across and then down, each rounded to 8 bits.
Picture Resize(const Picture& picture, PictureSize to, ResizeFilter filter);

// [channels][height][width] numbers. REQUIRES: as many channels as processing has means, or it has
// one.
void Normalise(const PictureProcessing& processing, const Picture& picture, float* out);

}  // namespace spillway
