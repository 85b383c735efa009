// Preprocessing of pictures for a model: resize, crop, normalise. It is read from a
// preprocessor_config.json with the semantics of transformers' image processors
// (ConvNextImageProcessor, which ResNet's checkpoints name, and those that resize, crop and
// normalise, such as ViT's and CLIP's). Pure functions of values.
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
  // Step 1: resize the shorter side to this many points and the other in proportion, or both sides
  // to it. 0: resize the whole picture to `size`.
  int64_t shorter_side = 0;
  bool keeps_proportions = true;
  ResizeFilter filter = ResizeFilter::kBicubic;
  // Step 2: crop the centre to this size.
  PictureSize size;
  // Step 3: each channel becomes (value * scale - mean) / std.
  double scale = 1.0 / 255;
  std::vector<double> mean = {0.5}, std = {0.5};  // [channel]; one value applies to all
  nlohmann::json original = nullptr;              // the file's keys, if they mean the same
};

// The preprocessing in a directory's preprocessor_config.json; none without that file. `side` above
// 0 replaces the size of pictures, and the size before the crop changes in proportion.
// kInvalidArgument, "FILE:LINE: ...", for invalid or unsupported values.
absl::StatusOr<std::optional<PictureProcessing>> ReadPictureProcessing(const std::string& directory,
                                                                       int64_t side);
absl::StatusOr<PictureProcessing> ParsePictureProcessing(const JsonDocument& document,
                                                         int64_t side);

// Resizes the whole picture to `side` x `side`.
PictureProcessing PlainProcessing(int64_t side);

// Crops the centre of pictures of any size, like ConvNextImageProcessor.
PictureProcessing MiddleProcessing(int64_t side);

// A preprocessor_config.json with the same meaning to transformers and to ParsePictureProcessing.
nlohmann::json ToJson(const PictureProcessing& processing, int64_t channels);

// Resizes and crops a picture.
Picture Fit(const PictureProcessing& processing, Picture picture);

// Resizes like Pillow, bit for bit (13 and later may do the second pass first): horizontally, then
// vertically, with a filter whose support follows the scale, rounded to 8 bits after each pass.
Picture Resize(const Picture& picture, PictureSize to, ResizeFilter filter);

// Writes [channels][height][width] numbers to `out`. REQUIRES: processing has one mean, or one per
// channel.
void Normalise(const PictureProcessing& processing, const Picture& picture, float* out);

}  // namespace spillway
