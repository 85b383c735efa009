#include "engine/layers/build_model.h"

#include "engine/layers/resnet.h"
#include "engine/layers/transformer.h"

namespace spillway {

absl::StatusOr<Model> BuildModel(const ModelConfig& config) {
  return config.resnet ? BuildResNet(*config.resnet) : BuildTransformer(config.transformer);
}

}  // namespace spillway
