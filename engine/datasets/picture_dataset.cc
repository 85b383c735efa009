#include "engine/datasets/picture_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<Batch> PictureDataset::Read(absl::Span<const int64_t> samples,
                                           std::optional<int64_t> first_draw) const {
  const PictureProcessing& processing = options_.processing;
  Batch batch =
      BlackPictures(static_cast<int64_t>(samples.size()), options_.channels, processing.size);
  float* out = batch.inputs.data_ptr<float>();
  const int64_t each = batch.inputs.numel() / batch.inputs.size(0);
  for (size_t i = 0; i < samples.size(); ++i) {
    ASSIGN_OR_RETURN(Picture picture, pictures_->Read(samples[i]));
    if (options_.channels == 1) picture = ToGrey(picture);
    picture = Fit(processing, std::move(picture));
    if (first_draw && options_.augment == Augment::kCropFlip) {
      picture = CropAndFlip(picture, {options_.seed, *first_draw + static_cast<int64_t>(i)});
    }
    Normalise(processing, picture, out + static_cast<int64_t>(i) * each);
    batch.labels[static_cast<int64_t>(i)] = std::max<int64_t>(0, pictures_->label(samples[i]));
  }
  return batch;
}

std::string PictureDataset::fingerprint() const {
  return absl::StrCat(pictures_->fingerprint(), "/",
                      ToJson(options_.processing, options_.channels).dump(),
                      options_.augment == Augment::kCropFlip ? "/crop-flip" : "");
}

absl::StatusOr<std::optional<Batch>> PictureDataset::Largest(int64_t count) {
  return BlackPictures(count, options_.channels, options_.processing.size);
}

Batch BlackPictures(int64_t count, int64_t channels, PictureSize size) {
  return {torch::zeros({count, channels, size.height, size.width}, torch::kFloat32),
          torch::zeros({count}, torch::kInt64)};
}

}  // namespace spillway
