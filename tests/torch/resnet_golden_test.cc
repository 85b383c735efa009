// Residual networks against transformers: the numbers of tests/golden/make_resnet.py, whose
// weights, pictures and labels follow the formulas here and there.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <filesystem>

#include "engine/adapters/adapter_layout.h"
#include "engine/layers/build_model.h"
#include "engine/torch/adapted_model.h"
#include "engine/torch/forward_pass.h"
#include "engine/torch/open_compute.h"
#include "engine/weights/safetensors.h"
#include "tests/scratch_directory.h"
#include "tests/torch/formula_weights.h"
#include "tests/torch/golden_run.h"
#include "tests/torch/in_memory_model.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

using torch::Tensor;

constexpr int64_t kGoldenSide = 24, kGoldenPictures = 256;

class GoldenPictures : public Dataset {
 public:
  explicit GoldenPictures(int64_t channels) : channels_(channels) {}

  int64_t size() const override { return kGoldenPictures; }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    const auto count = static_cast<int64_t>(samples.size());
    const Tensor i = torch::arange(channels_ * kGoldenSide * kGoldenSide, torch::kFloat64);
    Batch batch{torch::empty({count, channels_, kGoldenSide, kGoldenSide}),
                torch::empty({count}, torch::kInt64)};
    for (int64_t k = 0; k < count; ++k) {
      const auto n = static_cast<double>(samples[k]);
      const Tensor picture =
          torch::sin(i * 0.37 + n * 1.7) + 0.5 * torch::cos(i * (0.011 + 0.003 * (samples[k] % 3)));
      batch.inputs[k].copy_(picture.to(torch::kFloat32).view(batch.inputs[k].sizes()));
      batch.labels[k] = samples[k] % 3;
    }
    return batch;
  }
  std::string fingerprint() const override { return "golden"; }

 private:
  const int64_t channels_;
};

// Of buffers what a norm begins with.
class GoldenResNetWeights : public FormulaWeights {
 public:
  using FormulaWeights::FormulaWeights;

  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override {
    if (IsAdapterName(name)) {
      for (uint64_t i = 0; i < count; ++i) {
        out[i] = static_cast<float>(0.2 * std::cos(0.9 * static_cast<double>(first + i) +
                                                   static_cast<double>(name.size())));
      }
      return absl::OkStatus();
    }
    const bool is_variance = name.ends_with("running_var");
    if (!is_variance && !name.ends_with("running_mean") && !name.ends_with("tracked")) {
      return FormulaWeights::Read(name, first, count, out);
    }
    std::fill_n(out, count, is_variance ? 1.0f : 0.0f);
    return absl::OkStatus();
  }
};

class ExportedFile : public WeightSource {
 public:
  explicit ExportedFile(const std::string& output)
      : file_(*SafetensorsFile::Open(output + "/exported/model.safetensors")) {}

  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override {
    return file_->ReadFp32(name, first, count, out);
  }
  const SafetensorsFile& file() const { return *file_; }

 private:
  const std::unique_ptr<SafetensorsFile> file_;
};

const nlohmann::json& GoldenResNets() {
  static const auto& golden = *new nlohmann::json(
      nlohmann::json::parse(FileText(SPILLWAY_SOURCE_DIR "/tests/golden/resnet.json")));
  return golden;
}

class ResNetGolden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { std::filesystem::create_directories(dir_ / "swap"); }

  TrainOptions Options(const std::string& name) const {
    TrainOptions options;
    options.output = dir_ / name;
    options.offload_param = options.offload_optimizer = Offload::kNone;
    options.device_memory_bytes = options.host_memory_bytes = uint64_t{64} << 20;
    options.threads = 1;
    options.dtype = DType::kFloat32;
    options.order = SampleOrder::kSequential;
    options.steps = 20;
    options.micro_batch = 4;
    options.accumulate = 2;
    options.optimizer.kind = OptimizerSpec::Kind::kSgd;
    options.optimizer.learning_rate = 0.02;
    options.optimizer.momentum = 0.9;
    options.optimizer.weight_decay = 1e-3;
    options.schedule.kind = ScheduleSpec::Kind::kConstant;
    options.clip = 0;
    return options;
  }
  TrainOptions OnNvme(TrainOptions options) const {
    options.swap_paths = {dir_ / "swap"};
    options.offload_param = options.offload_optimizer = options.offload_activations =
        Offload::kNvme;
    options.recompute = Recompute::kAll;
    return options;
  }

  const nlohmann::json& golden_ = GoldenResNets()[GetParam()];
  const ModelConfig config_ = ConfigOf(golden_["config"]);
  const Model model_ = *BuildModel(config_);
  GoldenResNetWeights weights_{config_};
  GoldenPictures data_{config_.resnet->channels};
  const ScratchDirectory dir_;
};

TEST_P(ResNetGolden, ScoresLossAndEveryGradientAreTransformers) {
  EXPECT_TRUE(config_.warnings.empty()) << config_.warnings.front();
  EXPECT_TRUE(config_.unsupported.empty()) << config_.unsupported.front();
  const InMemoryModel model(model_, weights_);
  const Batch batch = *data_.Get({0, 1, 2, 3, 4, 5});
  const std::vector<float> expected = golden_["logits"];
  EXPECT_LT((model.Hidden(batch).flatten() - torch::tensor(expected)).abs().max().item<double>(),
            1e-5);
  const Tensor loss = model.LossSum(batch) / batch.labels.numel();
  EXPECT_NEAR(loss.item<double>(), golden_["loss"], 1e-5 * golden_["loss"].get<double>());
  loss.backward();
  ExpectGoldenGradients(model.Parameters(), golden_["gradients"]);
}

TEST_P(ResNetGolden, TwentyStepsLoseRememberAndAnswerWhatPyTorchsDo) {
  const TrainOptions options = OnNvme(Options("nvme"));
  const RunOutcome run = TrainToTheEnd(model_, data_, nullptr, &weights_, options);
  const std::vector<double> losses = golden_["losses"];
  ASSERT_EQ(run.rows.size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(run.rows[i]["loss"], losses[i], 1e-4 * losses[i]) << "step " << i + 1;
  }

  ExportedFile exported(options.output);
  for (const auto& [name, expected] : golden_["buffers"].items()) {
    SCOPED_TRACE(name);
    const SafetensorsTensor* const tensor = exported.file().Find(name);
    ASSERT_NE(tensor, nullptr);
    Tensor values = torch::empty({static_cast<int64_t>(tensor->elements)});
    ASSERT_TRUE(exported.Read(name, 0, tensor->elements, values.data_ptr<float>()).ok());
    const double norm = expected[0];
    EXPECT_NEAR(values.to(torch::kFloat64).norm().item<double>(), norm, 1e-5 * norm + 1e-6);
    EXPECT_NEAR(GoldenProjection(values), expected[1], 1e-5 * norm + 1e-6);
    const bool counts = name.ends_with("num_batches_tracked");
    EXPECT_EQ(tensor->dtype, counts ? "I64" : "F32");
    if (counts) {
      EXPECT_EQ(values.item<float>(), 40);
    }
  }

  const auto compute = *OpenCompute({});
  ForwardOptions forward;
  forward.place = compute->place;
  const Tensor scores = (*ForwardPass(model_, &exported, forward)
                              .Run({*data_.Get({200, 201, 202, 203, 204, 205})}))[0];
  const std::vector<float> expected = golden_["evaluated"];
  EXPECT_LT((scores.flatten() - torch::tensor(expected)).abs().max().item<double>(), 1e-5);
}

TEST_P(ResNetGolden, AdaptersBesideConvolutionsLoseWhatPeftsDo) {
  LoraConfig lora;
  lora.r = 3;
  lora.alpha = 6;
  lora.targets = {"convolution"};
  lora.modules_to_save = {"classifier"};
  const auto adapted = AdaptModel(model_, lora, /*training=*/true);
  ASSERT_TRUE(adapted.ok()) << adapted.status();
  const RunOutcome run =
      TrainToTheEnd(adapted->model, data_, nullptr, &weights_, OnNvme(Options("lora")));
  const std::vector<double> losses = golden_["lora_losses"];
  ASSERT_EQ(run.rows.size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(run.rows[i]["loss"], losses[i], 2e-5 * losses[i]) << "step " << i + 1;
  }
}

// Of either kind of block one.
class ResNetPlacement : public ResNetGolden {};

TEST_P(ResNetPlacement, AndAStopInBetweenChangeNoBit) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const std::string name(DTypeName(dtype));
    TrainOptions in_memory = Options("memory" + name);
    in_memory.dtype = dtype;
    const RunOutcome expected = TrainToTheEnd(model_, data_, &data_, &weights_, in_memory);
    EXPECT_NEAR(expected.rows.back()["loss"], golden_["losses"].back(),
                dtype == DType::kFloat32 ? 1e-4 : 0.1);

    TrainOptions stopped = OnNvme(in_memory);
    stopped.output = dir_ / ("nvme" + name);
    stopped.steps = 9;
    TrainToTheEnd(model_, data_, &data_, &weights_, stopped);
    stopped.steps = 20;
    stopped.resume = true;
    const RunOutcome found = TrainToTheEnd(model_, data_, &data_, &weights_, stopped);
    EXPECT_EQ(found.digests, expected.digests);
    EXPECT_EQ(found.exported, expected.exported);
    ASSERT_EQ(found.rows.size(), 20u);
    for (size_t i = 0; i < 20; ++i) EXPECT_EQ(found.rows[i]["loss"], expected.rows[i]["loss"]) << i;
    EXPECT_EQ(found.evaluations.back()["accuracy"], expected.evaluations.back()["accuracy"]);
    EXPECT_EQ(found.evaluations.back()["loss"], expected.evaluations.back()["loss"]);
  }
}

std::vector<std::string> GoldenResNetNames() {
  std::vector<std::string> names;
  for (const auto& [name, golden] : GoldenResNets().items()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Variants, ResNetGolden, testing::ValuesIn(GoldenResNetNames()),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Variants, ResNetPlacement,
                         testing::Values("basic_gray", "bottleneck_downsampled"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace spillway
