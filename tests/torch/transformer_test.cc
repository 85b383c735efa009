// GPT-2 against transformers: golden data by tests/golden/make_gpt2.py.
#include "engine/layers/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/families/model_config.h"
#include "engine/torch/init_source.h"
#include "engine/weights/named_weights.h"
#include "engine/weights/safetensors.h"
#include "engine/weights/safetensors_model.h"
#include "tests/torch/deviation.h"
#include "tests/torch/in_memory_model.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

using torch::Tensor;

Tensor ReadTensor(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsTensor* found = file.Find(name);
  TORCH_CHECK(found != nullptr, name, " is not in ", file.path());
  Tensor out = torch::empty(std::vector<int64_t>(found->shape.begin(), found->shape.end()));
  const absl::Status status = file.ReadFp32(name, 0, found->elements, out.data_ptr<float>());
  TORCH_CHECK(status.ok(), status.ToString());
  return out;
}

double MaxDifference(const Tensor& a, const Tensor& b) {
  return (a.to(torch::kFloat64) - b.to(torch::kFloat64)).abs().max().item<double>();
}

// As in make_gpt2.py.
double Projection(const Tensor& gradient) {
  const Tensor flat = gradient.to(torch::kFloat64).flatten();
  return (flat * torch::cos(torch::arange(flat.numel(), torch::kFloat64))).sum().item<double>();
}

// Key biases cannot change a softmax: their gradients are rounding noise.
Tensor WithoutKeyBias(const std::string& name, Tensor value) {
  if (!absl::EndsWith(name, "c_attn.bias")) return value;
  value = value.detach().clone();
  value.narrow(0, value.size(0) / 3, value.size(0) / 3).zero_();
  return value;
}

struct Golden {
  explicit Golden(const std::string& name)
      : dir(absl::StrCat(SPILLWAY_SOURCE_DIR, "/tests/golden/", name)),
        model(std::move(*SafetensorsModel::Open(dir))),
        expected(std::move(*SafetensorsFile::Open(dir + "/expected.safetensors"))),
        inputs(ReadTensor(*expected, "inputs").to(torch::kInt64)),
        labels(ReadTensor(*expected, "labels").to(torch::kInt64)) {
    variants = ReadStrictJson(dir + "/about.json")->value["variants"];
  }

  ModelConfig Config(const std::string& variant) const {
    JsonDocument document = *ReadStrictJson(dir + "/config.json");
    document.value.update(variants[variant]);
    return *ParseModelConfig(document);
  }

  InMemoryModel Build(const std::string& variant, torch::ScalarType dtype = torch::kFloat32) const {
    const ModelConfig config = Config(variant);
    return InMemoryModel(*BuildTransformer(config.transformer),
                         **OpenNamedWeights(TensorNamesOf(config), model.get()), dtype);
  }

  std::string dir;
  std::unique_ptr<SafetensorsModel> model;
  std::unique_ptr<SafetensorsFile> expected;
  Tensor inputs, labels;
  nlohmann::json variants;
};

void CheckVariant(const Golden& golden, const std::string& variant) {
  SCOPED_TRACE(variant);
  const InMemoryModel model = golden.Build(variant);
  const auto expected = [&](const std::string& key) {
    return ReadTensor(*golden.expected, absl::StrCat(variant, "/", key));
  };
  const Tensor logits = expected("logits").flatten(0, 1);
  EXPECT_LT(MaxDifference(model.Logits(golden.inputs), logits) /
                std::max(1.0, logits.abs().max().item<double>()),
            1e-5);

  const Tensor loss = model.LossSum(golden.inputs, golden.labels);
  EXPECT_LT(Deviation(loss, expected("loss")), 1e-5);
  loss.backward();
  for (const auto& [name, parameter] : model.Parameters()) {
    SCOPED_TRACE(name);
    if (absl::EndsWith(name, "c_attn.bias")) continue;  // below, and in full
    const Tensor check = expected("check/" + name);
    const double norm = check[0].item<double>();
    EXPECT_NEAR(parameter.grad().to_dense().norm().item<double>(), norm, 1e-5 * norm);
    EXPECT_NEAR(Projection(parameter.grad().to_dense()), check[1].item<double>(), 2e-5 * norm);
  }
}

TEST(Gpt2, LogitsLossAndGradientsAreTransformersInEveryVariant) {
  const Golden golden("gpt2");
  ASSERT_GE(golden.variants.size(), 25);
  for (const auto& variant : golden.variants.items()) CheckVariant(golden, variant.key());
}

TEST(Gpt2, OtherShapesAndAnUntiedHeadAreTransformers) {
  const Golden golden("gpt2_shape");
  for (const auto& variant : golden.variants.items()) CheckVariant(golden, variant.key());
}

TEST(Gpt2, EveryGradientIsTransformers) {
  for (const auto& [dir, variant] : {std::pair{"gpt2", "gelu_new"}, {"gpt2_shape", "untied"}}) {
    const Golden golden(dir);
    const InMemoryModel model = golden.Build(variant);
    model.LossSum(golden.inputs, golden.labels).backward();
    for (const auto& [name, parameter] : model.Parameters()) {
      const Tensor expected = ReadTensor(*golden.expected, absl::StrCat(variant, "/grad/", name));
      EXPECT_LT(Deviation(WithoutKeyBias(name, parameter.grad().to_dense()),
                          WithoutKeyBias(name, expected)),
                1e-5)
          << name;
    }
  }
}

TEST(Gpt2, EveryConfigKeyChangesTheLogits) {
  const Golden golden("gpt2");
  const Tensor base = golden.Build("gelu_new").Logits(golden.inputs);
  for (const char* variant : {"gelu", "quick_gelu", "relu", "unscaled", "inverse_layer", "epsilon",
                              "unscaled_inverse_layer"}) {
    EXPECT_GT(MaxDifference(golden.Build(variant).Logits(golden.inputs), base), 1e-4) << variant;
  }
}

TEST(Gpt2, HalfPrecisionIsNearFp32) {
  const Golden golden("gpt2");
  for (const char* variant : {"gelu_new", "upcast_inverse_layer"}) {
    const InMemoryModel exact = golden.Build(variant);
    const Tensor exact_loss = exact.LossSum(golden.inputs, golden.labels);
    exact_loss.backward();
    for (const auto& [dtype, tolerance] :
         {std::pair{torch::kBFloat16, 0.08}, {torch::kFloat16, 0.01}}) {
      const InMemoryModel half = golden.Build(variant, dtype);
      const Tensor loss = half.LossSum(golden.inputs, golden.labels);
      EXPECT_EQ(loss.scalar_type(), torch::kFloat32);
      EXPECT_LT(Deviation(loss, exact_loss), tolerance / 8);
      loss.backward();
      const auto expected = exact.Parameters();
      for (const auto& [name, parameter] : half.Parameters()) {
        EXPECT_EQ(parameter.grad().scalar_type(), dtype);
        EXPECT_LT(Deviation(WithoutKeyBias(name, parameter.grad().to_dense()),
                            WithoutKeyBias(name, expected.at(name).grad().to_dense())),
                  tolerance)
            << name << " " << dtype;
      }
    }
  }
}

ModelConfig DropoutConfig() { return SmallGpt2Config(50, 20, 24, 40, 2, 3, Dropouts(0.1)); }

TEST(Gpt2, DropoutIsTheSameOnRecomputeDifferentByStepAndOffInEvaluation) {
  const ModelConfig config = DropoutConfig();
  InitSource init(*BuildTransformer(config.transformer), 7);
  for (torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16}) {
    const InMemoryModel model(*BuildTransformer(config.transformer), init, dtype);
    const Tensor inputs = torch::randint(50, {3, 20}, torch::kInt64);
    EXPECT_TRUE(model.Hidden(inputs).equal(model.Hidden(inputs)));
    EXPECT_FALSE(model.Hidden(inputs).equal(model.Hidden(inputs, true, /*step=*/2)));
    EXPECT_FALSE(model.Hidden(inputs).equal(model.Hidden(inputs, /*training=*/false)));
    EXPECT_TRUE(model.Hidden(inputs, false, 1).equal(model.Hidden(inputs, false, 2)));
  }
}

TEST(Gpt2, AnInitialisedModelGuessesUniformly) {
  const ModelConfig config = DropoutConfig();
  InitSource init(*BuildTransformer(config.transformer), 7);
  const InMemoryModel model(*BuildTransformer(config.transformer), init);
  const Tensor inputs = torch::randint(50, {3, 20}, torch::kInt64);
  const double loss = model.LossSum(inputs, inputs.roll(1, 1), false).item<double>() / 60;
  EXPECT_NEAR(loss, std::log(50.0), 0.1);
}

TEST(Gpt2, ParametersCarryTransformersNamesAndInitialisation) {
  const ModelConfig config = DropoutConfig();
  const Model model = *BuildTransformer(config.transformer);
  int64_t count = 0;
  for (const auto& unit : model.units) {
    for (const auto& spec : unit->parameters()) {
      count += torch::zeros(spec.shape).numel();
      if (absl::EndsWith(spec.name, "c_proj.weight")) {
        EXPECT_EQ(spec.init.b, 0.02 / 2);
      }
      if (absl::EndsWith(spec.name, "c_fc.weight")) {
        EXPECT_EQ(spec.init.b, 0.02);
      }
    }
  }
  EXPECT_EQ(count + 2 * 24, config.shape.model.parameter_count());
  EXPECT_EQ(model.units[1]->name(), "h.0");
  EXPECT_EQ(model.units[1]->parameters()[2].name, "transformer.h.0.attn.c_attn.weight");
  EXPECT_EQ(model.loss->name(), "head");
  ASSERT_EQ(model.loss->borrowed().size(), 1);
}

TEST(Gpt2, ChunkRowsDependOnTheVocabularyAlone) {
  const auto rows = [](int64_t vocab) {
    return BuildTransformer(SmallGpt2Config(vocab, 8, 8, 8, 1, 1).transformer)->loss->ChunkRows();
  };
  EXPECT_EQ(rows(100), 4096);
  EXPECT_EQ(rows(4096), 4096);
  EXPECT_EQ(rows(4097), 2048);
  EXPECT_EQ(rows(50257), 256);
  EXPECT_EQ(rows(128256), 256);
  EXPECT_EQ(rows(151936), 128);
  EXPECT_EQ(rows(1 << 24), 16);
}

TEST(Gpt2, ATooLongSequenceAndAStrangeTokenThrow) {
  const ModelConfig config = DropoutConfig();
  InitSource init(*BuildTransformer(config.transformer), 7);
  const InMemoryModel model(*BuildTransformer(config.transformer), init);
  EXPECT_THAT(
      [&] {
        model.Hidden(torch::zeros({1, 21}, torch::kInt64));
      },
      testing::ThrowsMessage<c10::Error>(testing::HasSubstr("20 positions")));
  EXPECT_ANY_THROW(model.Hidden(torch::full({1, 4}, 50, torch::kInt64)));
}

TEST(Gpt2, AConfigMadeWronglyInCodeIsRefused) {
  TransformerConfig config = DropoutConfig().transformer;
  config.layers = 0;
  EXPECT_EQ(BuildTransformer(config).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace spillway
