#include "engine/layers/build_model.h"

#include "engine/layers/decoder.h"
#include "engine/layers/resnet.h"

namespace spillway {

absl::StatusOr<Model> BuildModel(const ModelConfig& config) {
  return config.resnet ? BuildResNet(*config.resnet) : BuildDecoder(config.decoder);
}

}  // namespace spillway
