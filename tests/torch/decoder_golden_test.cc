// Every decoder family against transformers: the numbers of tests/golden/make_decoders.py, whose
// weights follow the formula below.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>

#include "engine/generation/generator.h"
#include "engine/layers/transformer.h"
#include "tests/torch/formula_weights.h"
#include "tests/torch/golden_run.h"
#include "tests/torch/golden_tokens.h"
#include "tests/torch/in_memory_model.h"
#include "tests/torch/rows_and_samples.h"
#include "tests/torch/training_run.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

using torch::Tensor;

const nlohmann::json& GoldenDecoders() {
  static const auto& golden = *new nlohmann::json(
      nlohmann::json::parse(FileText(SPILLWAY_SOURCE_DIR "/tests/golden/decoders.json")));
  return golden;
}

class DecoderGolden : public testing::TestWithParam<std::string> {
 protected:
  const nlohmann::json& golden_ = GoldenDecoders()[GetParam()];
  const ModelConfig config_ = ConfigOf(golden_["config"]);
  const Model model_ = *BuildTransformer(config_.transformer);
  FormulaWeights weights_{config_};

  // Of 25 steps.
  std::vector<double> LossesOf(bool on_nvme, DType dtype = DType::kFloat32) {
    GoldenWindows data;
    return GoldenLosses(model_, data, weights_, {25, 1, on_nvme, dtype});
  }
};

TEST_P(DecoderGolden, LogitsLossAndEveryGradientAreTransformers) {
  EXPECT_TRUE(config_.warnings.empty()) << config_.warnings.front();
  const InMemoryModel model(model_, weights_);
  const Tensor tokens = GoldenTokens(2 * kGoldenLength + 1);
  const Tensor inputs = tokens.narrow(0, 0, 2 * kGoldenLength).view({2, -1});
  const Tensor labels = tokens.narrow(0, 1, 2 * kGoldenLength).view({2, -1});
  const Tensor logits = model.Logits(inputs);
  const Tensor last = logits.view({2, kGoldenLength, -1}).select(1, kGoldenLength - 1).flatten();
  const std::vector<float> expected = golden_["logits"];
  EXPECT_LT((last - torch::tensor(expected)).abs().max().item<double>(), 2e-5);
  EXPECT_NEAR(GoldenProjection(logits), golden_["logits_projection"], 2e-4);

  const Tensor loss = model.LossSum(inputs, labels);
  EXPECT_NEAR(loss.item<double>(), golden_["loss"], 1e-5 * golden_["loss"].get<double>());
  loss.backward();
  ExpectGoldenGradients(model.Parameters(), golden_["gradients"]);
}

TEST_P(DecoderGolden, SamplesInOneRowAreAsIfAlone) {
  // RoPE that stretches with the text goes by the row's length, padding included.
  const bool by_length = config_.transformer.rotary.by_length();
  ExpectRowsToBeTheirSamples(InMemoryModel(model_, weights_), kGoldenVocabulary, !by_length);
}

TEST_P(DecoderGolden, TwentyFiveStepsLoseWhatPyTorchsLose) {
  const std::vector<double> expected = golden_["losses"];
  const std::vector<double> found = LossesOf(true);
  ExpectGoldenLosses(found, expected);
  if (!IsFamily(GetParam())) return;
  EXPECT_EQ(LossesOf(false), found);
  // In bf16 these models, whose weights are far from small, go their own way in the last steps.
  const std::vector<double> half = LossesOf(true, DType::kBFloat16);
  const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
  EXPECT_NEAR(std::accumulate(half.begin(), half.end(), 0.0), sum, 0.01 * sum);
}

TEST_P(DecoderGolden, GreedyTokensAreTransformers) {
  const std::vector<int64_t> expected = golden_["generated"];
  GeneratorOptions options;
  options.dtype = DType::kFloat32;
  options.device_memory_bytes = options.host_memory_bytes = uint64_t{64} << 20;
  options.threads = 1;
  options.prompt_tokens = 6;
  options.new_tokens = static_cast<int64_t>(expected.size());
  options.positions = config_.transformer.longest_sequence();
  if (config_.transformer.rotary.scaling == RotaryConfig::Scaling::kLong) {
    options.angles_change_behind = config_.transformer.rotary.positions;
  }
  const auto generator = Generator::Create(model_, &weights_, options);
  ASSERT_TRUE(generator.ok()) << generator.status();
  const Tensor prompt = GoldenTokens(6);
  std::vector<int64_t> next(prompt.data_ptr<int64_t>(), prompt.data_ptr<int64_t>() + 6);
  std::vector<int64_t> found;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto logits = (*generator)->Append(next);
    ASSERT_TRUE(logits.ok()) << logits.status();
    next = {logits->argmax().item<int64_t>()};
    found.push_back(next[0]);
  }
  EXPECT_EQ(found, expected);
}

std::vector<std::string> GoldenNames() {
  std::vector<std::string> names;
  for (const auto& [name, golden] : GoldenDecoders().items()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Families, DecoderGolden, testing::ValuesIn(GoldenNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace spillway
