// Labelled pictures as a Dataset, for models that classify them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/data/labelled_pictures.h"
#include "engine/media/picture_augmentation.h"
#include "engine/media/picture_processor.h"
#include "engine/torch/model.h"

namespace spillway {

struct PictureDatasetOptions {
  PictureProcessing processing;
  int64_t channels = 3;  // of what a model reads: 3, or 1
  Augment augment = Augment::kNone;
  uint64_t seed = 0;  // of augment
};

// Batches: inputs [samples, channels, height, width] fp32, labels [samples] int64. A bad picture is
// an error that names its file when it is read.
class PictureDataset : public Dataset {
 public:
  // `pictures` outlives it.
  PictureDataset(const LabelledPictures* pictures, PictureDatasetOptions options)
      : pictures_(pictures), options_(std::move(options)) {}

  int64_t size() const override { return pictures_->size(); }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    return Read(samples, std::nullopt);
  }
  // Changed at random, where they are.
  absl::StatusOr<Batch> Draw(absl::Span<const int64_t> samples, int64_t first_draw) override {
    return Read(samples, first_draw);
  }
  std::string fingerprint() const override;
  absl::StatusOr<std::optional<Batch>> Largest(int64_t count) override;

 private:
  absl::StatusOr<Batch> Read(absl::Span<const int64_t> samples,
                             std::optional<int64_t> first_draw) const;

  const LabelledPictures* const pictures_;
  const PictureDatasetOptions options_;
};

// A batch of that shape. Pictures and labels are zero.
Batch BlackPictures(int64_t count, int64_t channels, PictureSize size);

}  // namespace spillway
