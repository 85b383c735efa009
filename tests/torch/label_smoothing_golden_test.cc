// Smoothed labels against transformers: the numbers of tests/golden/make_label_smoothing.py.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <vector>

#include "engine/layers/transformer.h"
#include "tests/torch/formula_weights.h"
#include "tests/torch/golden_pairs.h"
#include "tests/torch/golden_run.h"
#include "tests/torch/golden_tokens.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

std::vector<double> SmoothedLosses(const nlohmann::json& golden, bool on_nvme) {
  ModelConfig config = ConfigOf(golden["config"]);
  config.transformer.label_smoothing = golden["factor"];
  const Model model = *BuildTransformer(config.transformer);
  FormulaWeights weights(config);
  const int64_t steps = static_cast<int64_t>(golden["losses"].size());
  if (config.transformer.encoder == nullptr) {
    GoldenWindows data;
    return GoldenLosses(model, data, weights, {steps, 1, on_nvme});
  }
  GoldenPairs data(config.transformer);
  return GoldenLosses(model, data, weights, {steps, 2, on_nvme, DType::kFloat32, 5e-4});
}

TEST(LabelSmoothingGolden, FiveStepsLoseWhatTransformersLose) {
  const auto golden =
      nlohmann::json::parse(FileText(SPILLWAY_SOURCE_DIR "/tests/golden/label_smoothing.json"));
  ASSERT_EQ(golden.size(), 4);
  for (const auto& [name, one] : golden.items()) {
    SCOPED_TRACE(name);
    const std::vector<double> found = SmoothedLosses(one, /*on_nvme=*/true);
    ExpectGoldenLosses(found, one["losses"]);
    EXPECT_EQ(SmoothedLosses(one, /*on_nvme=*/false), found);
  }
}

}  // namespace
}  // namespace spillway
