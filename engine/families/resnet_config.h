// A residual network that classifies pictures, as transformers' ResNetForImageClassification is
// (He et al., "Deep Residual Learning for Image Recognition", 2015; the variant v1.5): what its
// config.json means, and its units, parameters and buffers. Plain values; no LibTorch.
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
  std::vector<int64_t> hidden = {256, 512, 1024, 2048};  // [stage] channels that its layers make
  std::vector<int64_t> depths = {3, 4, 6, 3};            // [stage] layers
  Layer layer = Layer::kBottleneck;
  Activation activation = Activation::kRelu;
  bool downsample_in_first_stage = false;  // otherwise the others' first layers alone halve sides
  bool downsample_in_bottleneck = false;   // in the first convolution, otherwise in the second
  ClassifierConfig classifier;

  // Rows and columns of what the last layer makes of pictures of `side`, rounded up.
  int64_t LastSide(int64_t side) const;
};

// A convolution without a bias, and the batch norm behind it. `side` x `side` of so many channels,
// by `stride`, with zeros around.
struct ResNetConvolution {
  std::string name;  // "resnet.embedder.embedder": of .convolution and .normalization
  int64_t in = 0, out = 0;
  int64_t side = 1, stride = 1;
};

enum class ResNetUnitKind { kEmbedder, kLayer, kClassifier, kLoss };

struct ResNetUnit {
  ResNetUnitKind kind = ResNetUnitKind::kLayer;
  std::string name = {};
  // One after another; of a layer with ReLU between them, whatever the activation behind it is.
  std::vector<ResNetConvolution> convolutions = {};
  // What a layer adds its input by; none: as it is.
  std::optional<ResNetConvolution> shortcut = std::nullopt;

  // In the order in which parameters and buffers are kept.
  std::vector<ResNetConvolution> AllConvolutions() const;
};

// "embedder", "stages.0.0" and so on, "classifier" (classifier.1 in files), and "loss", which has
// no parameters.
std::vector<ResNetUnit> UnitsOf(const ResNetConfig& config);

// A convolution's matrix, and its norm's weight and bias; of the classifier its weight and bias.
std::vector<ParameterSpec> ParametersOf(const ResNetConfig& config, const ResNetUnit& unit);

// What forwards change, of each convolution's norm: the running mean and variance, and how many
// micro-batches they were made from. The last is a whole number.
std::vector<BufferSpec> BuffersOf(const ResNetUnit& unit);
inline constexpr int kBuffersOfNorm = 3;

// The same for estimates, plans and weights. Of its sizes those that a transformer has are 0.
ModelShape ShapeOf(const ResNetConfig& config);

// Fills a config from what `reader` finds, which notes what is wrong or unsupported.
void ReadResNet(ConfigReader& reader, ResNetConfig& config);

}  // namespace spillway
