// A residual network that classifies pictures, transformers' ResNetForImageClassification (He et
// al., "Deep Residual Learning for Image Recognition", 2015; variant v1.5): its config.json, units,
// parameters and buffers. Plain values; no LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/families/activations.h"
#include "engine/families/classifier_config.h"
#include "engine/families/config_reader.h"
#include "engine/model/model_shape.h"
#include "engine/model/parameter.h"

namespace spillway {

struct ResNetConfig {
  enum class Layer {
    kBasic,       // two convolutions of 3 x 3
    kBottleneck,  // 1 x 1 to a quarter of the channels, 3 x 3, and 1 x 1 to all of them
  };

  int64_t channels = 3;  // of a picture
  int64_t embedding = 64;
  std::vector<int64_t> hidden = {256, 512, 1024, 2048};  // [stage] output channels of its layers
  std::vector<int64_t> depths = {3, 4, 6, 3};            // [stage] layers
  Layer layer = Layer::kBottleneck;
  Activation activation = Activation::kRelu;
  bool downsample_in_first_stage = false;  // otherwise the first stage keeps the resolution
  // The first convolution has the stride, otherwise the second.
  bool downsample_in_bottleneck = false;
  ClassifierConfig classifier;

  // Height and width of the last layer's output for pictures of `side` x `side`, rounded up.
  int64_t LastSide(int64_t side) const;
};

// A convolution without bias, followed by a batch norm: `in` to `out` channels, a kernel of `side`
// x `side`, padded with zeros.
struct ResNetConvolution {
  std::string name;  // module prefix of .convolution and .normalization: "resnet.embedder.embedder"
  int64_t in = 0, out = 0;
  int64_t side = 1, stride = 1;
};

enum class ResNetUnitKind { kEmbedder, kLayer, kClassifier, kLoss };

struct ResNetUnit {
  ResNetUnitKind kind = ResNetUnitKind::kLayer;
  std::string name = {};
  // Applied in sequence; in a layer with ReLU between them, whatever `activation` is.
  std::vector<ResNetConvolution> convolutions = {};
  // The convolution on a layer's residual connection; none: identity.
  std::optional<ResNetConvolution> shortcut = std::nullopt;

  // All convolutions, in the storage order of parameters and buffers.
  std::vector<ResNetConvolution> AllConvolutions() const;
};

// The units in order: "embedder", "stages.0.0", ..., "classifier" (classifier.1 in files) and
// "loss", without parameters.
std::vector<ResNetUnit> UnitsOf(const ResNetConfig& config);

// A convolution's weight and its norm's weight and bias; the classifier's weight and bias.
std::vector<ParameterSpec> ParametersOf(const ResNetConfig& config, const ResNetUnit& unit);

// The buffers of each convolution's norm: running mean, running variance, and the number of
// micro-batches in them, a whole number.
std::vector<BufferSpec> BuffersOf(const ResNetUnit& unit);
inline constexpr int kBuffersOfNorm = 3;

// The shape of the same model, for estimates, plans and weights. Sizes that only transformers have
// are 0.
ModelShape ShapeOf(const ResNetConfig& config);

// Fills a config from `reader`, which notes wrong and unsupported values.
void ReadResNet(ConfigReader& reader, ResNetConfig& config);

}  // namespace spillway
