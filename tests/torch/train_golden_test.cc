// Twenty steps through NVMe against transformers and PyTorch with everything in
// memory: the numbers of tests/golden/make_gpt2.py.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <filesystem>

#include "absl/strings/match.h"
#include "engine/data/token_source.h"
#include "engine/datasets/token_dataset.h"
#include "engine/families/model_config.h"
#include "engine/weights/named_weights.h"
#include "engine/weights/safetensors.h"
#include "engine/weights/safetensors_model.h"
#include "tests/scratch_directory.h"
#include "tests/torch/training_run.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

const char kGolden[] = SPILLWAY_SOURCE_DIR "/tests/golden/train_fp32";

class TrainGolden : public testing::Test {
 protected:
  TrainGolden() { fs::create_directories(dir_ / "swap"); }

  // The options that expected.json's "hyperparameters" describe.
  TrainOptions Options(DType dtype) const {
    const nlohmann::json& given = expected_["hyperparameters"];
    TrainOptions options;
    options.output = dir_ / "run";
    options.swap_paths = {dir_ / "swap"};
    options.offload_param = options.offload_optimizer = Offload::kNvme;
    options.device_memory_bytes = options.host_memory_bytes = uint64_t{64} << 20;
    options.tile_parameters = 2048;
    options.threads = 1;
    options.dtype = dtype;
    options.order = SampleOrder::kSequential;
    options.steps = given["steps"];
    options.micro_batch = given["micro_batch"];
    options.accumulate = given["accumulate"];
    options.optimizer.kind = OptimizerSpec::Kind::kAdamW;
    options.optimizer.learning_rate = given["lr"];
    options.optimizer.beta1 = given["betas"][0];
    options.optimizer.beta2 = given["betas"][1];
    options.optimizer.eps = given["eps"];
    options.optimizer.weight_decay = given["weight_decay"];
    options.clip = given["clip"];
    EXPECT_EQ(given["schedule"], "linear");
    options.schedule.kind = ScheduleSpec::Kind::kLinear;
    options.schedule.warmup_steps = given["warmup"];
    return options;
  }

  RunOutcome Run(DType dtype) {
    const ModelConfig config = *ReadModelConfig(kGolden);
    const Model model = *BuildTransformer(config.transformer);
    const auto files = *SafetensorsModel::Open(kGolden);
    const auto weights = *OpenNamedWeights(TensorNamesOf(config), files.get());
    const int64_t seq_len = expected_["hyperparameters"]["seq_len"];
    TokenSourceOptions tokens;
    tokens.files = {absl::StrCat(kGolden, "/tokens.bin")};
    tokens.vocabulary = config.transformer.vocabulary;
    tokens.window_tokens = seq_len;
    const auto source = *TokenSource::Open(tokens);
    TokenDataset data(source.get(), seq_len);
    RunOutcome outcome = TrainToTheEnd(model, data, nullptr, weights.get(), Options(dtype));
    parameters_ = config.shape.model.parameter_count();
    return outcome;
  }

  // Clipped, so deferred, and everything on NVMe: in every step but the first, which
  // has no update before it, at least all state is read and written once.
  void ExpectThroughNvme(const RunOutcome& outcome, double state_bytes_per_parameter) const {
    ASSERT_EQ(outcome.rows.size(), 20u);
    for (size_t i = 0; i < outcome.rows.size(); ++i) {
      const auto& row = outcome.rows[i];
      EXPECT_EQ(row["update"], "deferred");
      EXPECT_FALSE(row["skipped"]);
      if (i == 0) continue;
      EXPECT_GE(row["bytes"]["nvme_read"], state_bytes_per_parameter * parameters_) << i;
      EXPECT_GE(row["bytes"]["nvme_written"], state_bytes_per_parameter * parameters_) << i;
    }
  }

  const ScratchDirectory dir_;
  const nlohmann::json expected_ =
      nlohmann::json::parse(FileText(absl::StrCat(kGolden, "/expected.json")));
  int64_t parameters_ = 0;
};

double RelativeError(double actual, double expected) {
  return std::abs(actual - expected) / std::abs(expected);
}

TEST_F(TrainGolden, Fp32AgreesWithPyTorch) {
  const RunOutcome outcome = Run(DType::kFloat32);
  ExpectThroughNvme(outcome, 12);
  for (int i = 0; i < 20; ++i) {
    const auto& row = outcome.rows[i];
    EXPECT_EQ(row["step"], i + 1);
    EXPECT_LE(RelativeError(row["loss"], expected_["losses"][i]), 1e-5) << "step " << i + 1;
    EXPECT_LE(RelativeError(row["grad_norm"], expected_["grad_norms"][i]), 1e-5)
        << "step " << i + 1;
    EXPECT_NEAR(row["lr"], expected_["lrs"][i].get<double>(), 1e-15) << "step " << i + 1;
  }

  const auto actual = *SafetensorsFile::Open(dir_ / "run/exported/model.safetensors");
  const auto expected = *SafetensorsFile::Open(absl::StrCat(kGolden, "/expected.safetensors"));
  double all_difference = 0, all_size = 0;
  int compared = 0;
  for (const SafetensorsTensor& tensor : expected->tensors()) {
    const std::string& name = tensor.name;
    if (name == "lm_head.weight" && actual->Find(name) == nullptr) continue;  // tied
    ASSERT_NE(actual->Find(name), nullptr) << name;
    EXPECT_EQ(actual->Find(name)->shape, tensor.shape) << name;
    uint64_t count = 1;
    for (uint64_t size : tensor.shape) count *= size;
    std::vector<float> a(count), e(count);
    ASSERT_TRUE(actual->ReadFp32(name, 0, count, a.data()).ok()) << name;
    ASSERT_TRUE(expected->ReadFp32(name, 0, count, e.data()).ok()) << name;
    const bool has_key_bias = absl::EndsWith(name, "c_attn.bias");
    double difference = 0, size = 0;
    for (uint64_t i = 0; i < count; ++i) {
      // Adding a constant to every key changes no attention weight: what a key bias
      // gets for a gradient is rounding noise.
      if (has_key_bias && i >= count / 3 && i < count / 3 * 2) continue;
      difference += std::pow(double{a[i]} - e[i], 2);
      size += std::pow(double{e[i]}, 2);
    }
    EXPECT_LE(std::sqrt(difference / size), 1e-4) << name;
    all_difference += difference;
    all_size += size;
    ++compared;
  }
  EXPECT_EQ(compared, 2 + 2 * 12 + 2);
  EXPECT_LE(std::sqrt(all_difference / all_size), 1e-5);
}

TEST_F(TrainGolden, Bf16LossesAreWithinOnePercentOfAutocast) {
  const RunOutcome outcome = Run(DType::kBFloat16);
  ExpectThroughNvme(outcome, 12);
  for (int i = 0; i < 20; ++i) {
    const auto& row = outcome.rows[i];
    EXPECT_LE(RelativeError(row["loss"], expected_["losses_bf16"][i]), 0.01) << "step " << i + 1;
    EXPECT_NEAR(row["lr"], expected_["lrs"][i].get<double>(), 1e-15) << "step " << i + 1;
  }
}

}  // namespace
}  // namespace spillway
