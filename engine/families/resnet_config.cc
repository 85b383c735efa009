#include "engine/families/resnet_config.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/families/layer_keys.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr int64_t kMostChannels = 1 << 16;
constexpr int64_t kMostStages = 16;
constexpr int64_t kMostStageLayers = 512;
constexpr int64_t kBottleneckReduction = 4;
constexpr char kEmbedder[] = "resnet.embedder.embedder";

int64_t Halved(int64_t side) { return (side + 1) / 2; }

ResNetUnit LayerUnit(const ResNetConfig& c, size_t stage, int64_t number, int64_t in) {
  const int64_t out = c.hidden[stage];
  const int64_t stride = number == 0 && (stage > 0 || c.downsample_in_first_stage) ? 2 : 1;
  const std::string prefix = absl::StrCat("resnet.encoder.stages.", stage, ".layers.", number, ".");
  ResNetUnit unit{.kind = ResNetUnitKind::kLayer,
                  .name = absl::StrCat("stages.", stage, ".", number)};
  if (in != out || stride != 1) {
    unit.shortcut = ResNetConvolution{prefix + "shortcut", in, out, 1, stride};
  }
  if (c.layer == ResNetConfig::Layer::kBasic) {
    unit.convolutions = {{prefix + "layer.0", in, out, 3, stride},
                         {prefix + "layer.1", out, out, 3, 1}};
  } else {
    const int64_t reduced = out / kBottleneckReduction;
    const bool early = c.downsample_in_bottleneck;
    unit.convolutions = {{prefix + "layer.0", in, reduced, 1, early ? stride : 1},
                         {prefix + "layer.1", reduced, reduced, 3, early ? 1 : stride},
                         {prefix + "layer.2", reduced, out, 1, 1}};
  }
  return unit;
}

// A list of numbers from 1 to `most`.
void ReadList(ConfigReader& reader, const char* key, int64_t most, std::vector<int64_t>* list) {
  const json* const found = reader.Find({key});
  if (found == nullptr) return;
  const std::string expected = absl::StrCat("a list of numbers from 1 to ", most, ", one a stage");
  if (!found->is_array() || found->empty() || found->size() > kMostStages) {
    return reader.Refuse(key, *found, expected);
  }
  list->clear();
  for (const json& value : *found) {
    const bool right = value.is_number_integer() && value >= 1 && value <= most;
    if (!right) return reader.Refuse(key, *found, expected);
    list->push_back(value.get<int64_t>());
  }
}

void ReadLayerType(ConfigReader& reader, ResNetConfig& config) {
  const json* const found = reader.Find({"layer_type"});
  if (found == nullptr) return;
  if (*found == json("basic")) {
    config.layer = ResNetConfig::Layer::kBasic;
  } else if (*found != json("bottleneck")) {
    reader.Refuse("layer_type", *found, "\"basic\" or \"bottleneck\"");
  }
}

}  // namespace

int64_t ResNetConfig::LastSide(int64_t side) const {
  side = Halved(Halved(side));  // the embedder's convolution and its pooling
  for (size_t stage = downsample_in_first_stage ? 0 : 1; stage < hidden.size(); ++stage) {
    side = Halved(side);
  }
  return side;
}

std::vector<ResNetConvolution> ResNetUnit::AllConvolutions() const {
  std::vector<ResNetConvolution> all = convolutions;
  if (shortcut) all.push_back(*shortcut);
  return all;
}

std::vector<ResNetUnit> UnitsOf(const ResNetConfig& config) {
  std::vector<ResNetUnit> units = {
      {.kind = ResNetUnitKind::kEmbedder,
       .name = "embedder",
       .convolutions = {{kEmbedder, config.channels, config.embedding, 7, 2}}}};
  int64_t in = config.embedding;
  for (size_t stage = 0; stage < config.hidden.size(); ++stage) {
    for (int64_t number = 0; number < config.depths[stage]; ++number) {
      units.push_back(LayerUnit(config, stage, number, in));
      in = config.hidden[stage];
    }
  }
  units.push_back({.kind = ResNetUnitKind::kClassifier, .name = "classifier"});
  units.push_back({.kind = ResNetUnitKind::kLoss, .name = "loss"});
  return units;
}

std::vector<ParameterSpec> ParametersOf(const ResNetConfig& config, const ResNetUnit& unit) {
  std::vector<ParameterSpec> parameters;
  for (const ResNetConvolution& one : unit.AllConvolutions()) {
    // As transformers: kaiming_normal_ by the fan out.
    const auto fan_out = static_cast<double>(one.out * one.side * one.side);
    parameters.push_back({one.name + ".convolution.weight",
                          {one.out, one.in, one.side, one.side},
                          Init::Normal(0, std::sqrt(2 / fan_out)),
                          false,
                          LinearWeight::kKernels});
    parameters.push_back({one.name + ".normalization.weight", {one.out}, Init::Constant(1)});
    parameters.push_back({one.name + ".normalization.bias", {one.out}, Init::Constant(0)});
  }
  if (unit.kind == ResNetUnitKind::kClassifier) {
    const auto labels = static_cast<int64_t>(config.classifier.labels.size());
    // As torch.nn.Linear.
    const double bound = 1 / std::sqrt(static_cast<double>(config.hidden.back()));
    const Init init = Init::Uniform(-bound, bound);
    parameters.push_back(
        {"classifier.1.weight", {labels, config.hidden.back()}, init, false, LinearWeight::kOutIn});
    parameters.push_back({"classifier.1.bias", {labels}, init});
  }
  return parameters;
}

std::vector<BufferSpec> BuffersOf(const ResNetUnit& unit) {
  std::vector<BufferSpec> buffers;
  for (const ResNetConvolution& one : unit.AllConvolutions()) {
    const std::string norm = one.name + ".normalization.";
    buffers.push_back({norm + "running_mean", {one.out}, 0});
    buffers.push_back({norm + "running_var", {one.out}, 1});
    buffers.push_back({norm + "num_batches_tracked", {}, 0, /*whole=*/true});
  }
  return buffers;
}

ModelShape ShapeOf(const ResNetConfig& config) {
  ModelShape shape;
  shape.model_type = "resnet";
  shape.exact = true;
  shape.causal = false;
  shape.sees = true;
  shape.classifier = "classifier";
  shape.hidden = config.hidden.back();
  for (const int64_t depth : config.depths) shape.layers += depth;
  for (const ResNetUnit& one : UnitsOf(config)) {
    UnitDescription& unit = shape.model.units.emplace_back();
    unit.name = one.name;
    for (const ParameterSpec& parameter : ParametersOf(config, one)) {
      unit.parameters.push_back(Describe(parameter));
    }
  }
  return shape;
}

void ReadResNet(ConfigReader& reader, ResNetConfig& config) {
  reader.Integer({"num_channels"}, kMostChannels, &config.channels);
  reader.Integer({"embedding_size"}, kMostChannels, &config.embedding);
  ReadList(reader, "hidden_sizes", kMostChannels, &config.hidden);
  ReadList(reader, "depths", kMostStageLayers, &config.depths);
  ReadLayerType(reader, config);
  ReadActivation(reader, {"hidden_act"}, &config.activation);
  reader.Boolean({"downsample_in_first_stage"}, &config.downsample_in_first_stage);
  reader.Boolean({"downsample_in_bottleneck"}, &config.downsample_in_bottleneck);
  // Of a backbone, which has no classifier to tell.
  for (const char* key : {"out_features", "out_indices", "stage_names", "initializer_range"}) {
    reader.Find({key});
  }
  ReadLabels(reader, config.classifier);
  if (!reader.status().ok()) return;
  if (!config.classifier.problem) config.classifier.problem = ClassifierProblem::kSingleLabel;
  if (config.depths.size() != config.hidden.size()) {
    return reader.Fail("depths",
                       absl::StrCat("depths has ", config.depths.size(),
                                    " stages, but hidden_sizes has ", config.hidden.size()));
  }
  for (const int64_t hidden : config.hidden) {
    if (config.layer == ResNetConfig::Layer::kBasic || hidden >= kBottleneckReduction) continue;
    reader.Fail("hidden_sizes", absl::StrCat("hidden_sizes has ", hidden,
                                             ", of which a bottleneck "
                                             "has no quarter; expected 4 or more"));
  }
}

}  // namespace spillway
