#include "engine/families/resnet_config.h"

#include "engine/families/model_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<ModelConfig> ParseResNet(const nlohmann::json& more) {
  nlohmann::json keys = {{"model_type", "resnet"},
                         {"architectures", {"ResNetForImageClassification"}}};
  if (!more.is_null()) keys.update(more);
  return ParseModelConfig(*ParseStrictJson(keys.dump(1), "config.json"));
}

TEST(ResNetConfig, WithoutKeysItIsResNet50) {
  const auto config = ParseResNet({});
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_TRUE(config->resnet);
  EXPECT_TRUE(config->warnings.empty());
  // torchvision's resnet50 has 25,557,032 parameters, 2,049,000 of them for 1000 labels.
  EXPECT_EQ(config->shape.model.parameter_count(), 25557032u - 2049000 + 2 * 2049);
  EXPECT_EQ(config->shape.model.units.size(), 1u + 16 + 2);
  EXPECT_EQ(config->resnet->LastSide(224), 7);
  EXPECT_EQ(config->resnet->LastSide(32), 1);
  EXPECT_EQ(config->classifier(), &config->resnet->classifier);
  EXPECT_EQ(ExportedConfig(*config)["problem_type"], "single_label_classification");
}

TEST(ResNetConfig, BasicLayersMakeResNet18) {
  const auto config = ParseResNet({{"layer_type", "basic"},
                                   {"hidden_sizes", {64, 128, 256, 512}},
                                   {"depths", {2, 2, 2, 2}},
                                   {"num_labels", 1000}});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->shape.model.parameter_count(), 11689512u);
  const std::vector<ResNetUnit> units = UnitsOf(*config->resnet);
  EXPECT_FALSE(units[1].shortcut);
  ASSERT_TRUE(units[3].shortcut);
  EXPECT_EQ(units[3].name, "stages.1.0");
  EXPECT_EQ(units[3].shortcut->stride, 2);
  EXPECT_EQ(units[3].convolutions[0].stride, 2);
  EXPECT_EQ(units[3].convolutions[1].stride, 1);
}

TEST(ResNetConfig, StridesAreWhereTheConfigPutsThem) {
  const auto strides = [](const nlohmann::json& more) {
    std::vector<int64_t> found;
    for (const ResNetConvolution& one : UnitsOf(*ParseResNet(more)->resnet)[1].AllConvolutions()) {
      found.push_back(one.stride);
    }
    return found;
  };
  EXPECT_THAT(strides({}), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(strides({{"downsample_in_first_stage", true}}), ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(strides({{"downsample_in_first_stage", true}, {"downsample_in_bottleneck", true}}),
              ElementsAre(2, 1, 1, 2));
}

TEST(ResNetConfig, FilesHaveBuffersBesideParameters) {
  const TensorNames names = TensorNamesOf(*ParseResNet({}));
  EXPECT_EQ(names.whole.size(), 53u);
  const std::string norm = "resnet.encoder.stages.0.layers.0.shortcut.normalization.";
  EXPECT_THAT(names.shapes.at(norm + "running_var"), ElementsAre(256));
  EXPECT_TRUE(names.shapes.at(norm + "num_batches_tracked").empty());
  EXPECT_TRUE(names.whole.contains(norm + "num_batches_tracked"));
}

TEST(ResNetConfig, WhatMakesNoSenseIsNamed) {
  const auto objection = [](const nlohmann::json& more) {
    const auto config = ParseResNet(more);
    if (!config.ok()) return std::string(config.status().message());
    return config->unsupported.empty() ? "" : config->unsupported.front();
  };
  EXPECT_THAT(objection({{"depths", {1, 2}}}), HasSubstr("depths has 2 stages"));
  EXPECT_THAT(objection({{"depths", {1, 2, 0, 1}}}), HasSubstr("one a stage"));
  EXPECT_THAT(objection({{"hidden_sizes", nlohmann::json::array()}}), HasSubstr("hidden_sizes"));
  EXPECT_THAT(objection({{"hidden_sizes", {2, 8, 8, 8}}}), HasSubstr("no quarter"));
  EXPECT_THAT(objection({{"layer_type", "wide"}}), HasSubstr("\"basic\" or \"bottleneck\""));
  EXPECT_THAT(objection({{"hidden_act", "step"}}), HasSubstr("hidden_act"));
  EXPECT_THAT(objection({{"num_channels", 0}}), HasSubstr("num_channels"));
  EXPECT_THAT(objection({{"architectures", {"ResNetBackbone"}}}), HasSubstr("ResNetBackbone"));
}

}  // namespace
}  // namespace spillway
