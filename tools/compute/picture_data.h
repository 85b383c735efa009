// What a model that classifies pictures learns from, is evaluated on and is asked about.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/config/run_config.h"
#include "engine/data/labelled_pictures.h"
#include "engine/datasets/picture_dataset.h"
#include "engine/families/model_config.h"
#include "tools/compute/task_data.h"

namespace spillway {

// kInvalidArgument for flags of pictures where the model is none that reads them.
absl::Status RefusePictureFlags(const RunConfig& config, const ModelConfig& model);

// kInvalidArgument for flags of texts, where the model reads pictures.
absl::Status RefuseTextFlags(const RunConfig& config);

// Fills in the labels of a model whose config.json leaves them open, by the data, and says them in
// what is exported. kInvalidArgument for flags that are for models of other tasks, and for a
// problem that pictures with one label each do not have. REQUIRES: model.resnet.
absl::Status ResolvePictures(const RunConfig& config, ModelConfig& model);

// What `directory` says the model is given of a picture; where it says nothing, the whole of
// CIFAR's, or of others the middle of `side` points a side. `side` above 0 wins over what it says.
// kInvalidArgument where neither says a size, and for a batch norm that would have a single number
// to go by.
absl::StatusOr<PictureProcessing> ResolveProcessing(const std::string& directory, int64_t side,
                                                    bool is_cifar, const ResNetConfig& model);

// kInvalidArgument where the last layer makes one number a channel of a micro-batch of so many.
absl::Status CheckNorms(const PictureProcessing& processing, int64_t micro_batch,
                        const ResNetConfig& model);

class PictureData : public TaskData {
 public:
  // REQUIRES: ResolvePictures.
  static absl::StatusOr<std::unique_ptr<PictureData>> Open(const RunConfig& config,
                                                           const ResNetConfig& model);

  Dataset* train() const override { return train_.get(); }
  Dataset* evaluation() const override { return evaluation_.get(); }
  DatasetSize train_size() const override { return SizeOf(train_.get()); }
  DatasetSize evaluation_size() const override { return SizeOf(evaluation_.get()); }
  std::vector<std::pair<std::string, std::string>> Identity() const override;
  std::vector<std::pair<std::string, std::string>> ModelFiles() const override;

 private:
  PictureData() = default;
  static DatasetSize SizeOf(const Dataset* data) {
    const int64_t pictures = data ? data->size() : 0;
    return {.unit = "pictures", .samples = pictures, .labels = pictures};
  }

  PictureProcessing processing_;
  int64_t channels_ = 3;
  Augment augment_ = Augment::kNone;
  std::unique_ptr<LabelledPictures> pictures_, evaluated_;
  std::unique_ptr<Dataset> train_, evaluation_;
};

}  // namespace spillway
