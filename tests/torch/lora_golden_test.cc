// LoRA against PEFT: the adapters and numbers of tests/golden/make_lora.py, on models whose weights
// follow a formula.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "engine/adapters/adapter_choice.h"
#include "engine/adapters/adapter_export.h"
#include "engine/adapters/adapter_file.h"
#include "engine/adapters/tied_logits.h"
#include "engine/generation/generator.h"
#include "engine/layers/transformer.h"
#include "engine/torch/adapted_model.h"
#include "io/base/status.h"
#include "tests/scratch_directory.h"
#include "tests/torch/formula_weights.h"
#include "tests/torch/golden_run.h"
#include "tests/torch/golden_tokens.h"
#include "tests/torch/in_memory_model.h"
#include "tests/torch/training_run.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

using torch::Tensor;

constexpr int64_t kLength = 14;
constexpr const char* kGoldenFolder = SPILLWAY_SOURCE_DIR "/tests/golden/";

class Windows : public Dataset {
 public:
  int64_t size() const override { return 50; }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    const Tensor window = GoldenTokens(50 * kLength + 1).narrow(0, samples[0] * kLength, 15);
    return Batch{window.narrow(0, 0, kLength).unsqueeze(0),
                 window.narrow(0, 1, kLength).unsqueeze(0)};
  }
  std::string fingerprint() const override { return "golden"; }
};

const nlohmann::json& AllGolden() {
  static const auto& golden = *new nlohmann::json(
      nlohmann::json::parse(FileText(std::string(kGoldenFolder) + "lora.json")));
  return golden;
}

class LoraGolden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto adapter = AdapterFile::Open(kGoldenFolder + std::string("lora/") + GetParam());
    ASSERT_TRUE(adapter.ok()) << adapter.status();
    adapter_ = *std::move(adapter);
    const absl::Status untied =
        UntieForAdapter(kGoldenFolder + std::string("lora/") + GetParam(), "", &config_);
    ASSERT_TRUE(untied.ok()) << untied;
    EXPECT_EQ(config_.untied, absl::EndsWith(GetParam(), "_apart"));
    base_model_ = *BuildTransformer(config_.transformer);
    const auto lora = ResolveLora({.directory = kGoldenFolder + std::string("lora/") + GetParam()},
                                  config_.shape);
    ASSERT_TRUE(lora.ok()) << lora.status();
    lora_ = *lora;
    weights_ = std::make_unique<AdaptedWeights>(&base_, adapter_.get(), nullptr);
  }

  Model Adapted(bool training) {
    const auto adapted = AdaptModel(base_model_, lora_, training);
    TORCH_CHECK(adapted.ok(), adapted.status().ToString());
    const auto matched =
        adapter_->Match(config_.shape.model, adapted->layout, TensorNamesOf(config_));
    TORCH_CHECK(matched.ok(), matched.ToString());
    return adapted->model;
  }

  TrainOptions Options(bool on_nvme, DType dtype = DType::kFloat32) {
    TrainOptions options;
    options.output = dir_ / absl::StrCat("run", ++runs_);
    options.offload_param = options.offload_optimizer = Offload::kNone;
    options.no_commit = !on_nvme;
    if (on_nvme) {
      std::filesystem::create_directories(dir_ / "swap");
      options.swap_paths = {dir_ / "swap"};
      options.offload_param = options.offload_optimizer = options.offload_activations =
          Offload::kNvme;
      options.recompute = Recompute::kAll;
      options.commit_every = 10;
    }
    options.device_memory_bytes = options.host_memory_bytes = uint64_t{64} << 20;
    options.threads = 1;
    options.dtype = dtype;
    if (golden_.contains("base_dtype")) {
      options.freeze.packing = {*PackedFormatFromName(golden_["base_dtype"].get<std::string>()),
                                DTypeBytes(dtype)};
    }
    options.order = SampleOrder::kSequential;
    options.steps = 25;
    options.accumulate = 2;
    options.optimizer.learning_rate = 2e-3;
    options.optimizer.weight_decay = 0.01;
    options.clip = 1;
    return options;
  }

  std::vector<double> Train25(const TrainOptions& options, const TrainHooks& hooks = {}) {
    Windows data;
    const auto result = Train(Adapted(true), data, nullptr, weights_.get(), options, hooks);
    TORCH_CHECK(result.ok(), result.status().ToString());
    std::vector<double> losses;
    for (const auto& row : JsonLines(options.output + "/metrics.jsonl")) {
      losses.push_back(row["loss"]);
    }
    return losses;
  }

  // What a file has of each tensor that `golden` gives norm and projection of.
  static void ExpectTensors(const std::string& file, const nlohmann::json& golden) {
    const auto opened = SafetensorsFile::Open(file);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ((*opened)->tensors().size(), golden.size());
    for (const auto& [name, expected] : golden.items()) {
      SCOPED_TRACE(name);
      const SafetensorsTensor* tensor = (*opened)->Find(name);
      ASSERT_NE(tensor, nullptr);
      // Gradients of keys' biases are rounding noise, which Adam makes steps of.
      if (absl::StrContains(name, "bias") &&
          (absl::StrContains(name, "c_attn") || absl::StrContains(name, "k_proj"))) {
        continue;
      }
      Tensor values = torch::empty(static_cast<int64_t>(tensor->elements));
      ASSERT_TRUE((*opened)->ReadFp32(name, 0, values.numel(), values.data_ptr<float>()).ok());
      values = values.to(torch::kFloat64);
      const Tensor waves = torch::cos(torch::arange(values.numel(), torch::kFloat64));
      const double norm = expected[0];
      EXPECT_NEAR(values.norm().item<double>(), norm, 1e-4 * norm);
      EXPECT_NEAR((values * waves).sum().item<double>(), expected[1], 2e-4 * norm + 2e-4);
    }
  }

  const nlohmann::json& golden_ = AllGolden()[GetParam()];
  // The files' own weights, in which logits that an adapter unties are the embedding's.
  class BaseWeights final : public WeightSource {
   public:
    explicit BaseWeights(const ModelConfig& config)
        : formula_(config),
          head_(config.transformer.tied ? config.transformer.names.logits : ""),
          tokens_(config.transformer.names.tokens) {}
    absl::Status Read(const std::string& name, uint64_t first, uint64_t count,
                      float* out) override {
      return formula_.Read(name == head_ ? tokens_ : name, first, count, out);
    }

   private:
    FormulaWeights formula_;
    const std::string head_, tokens_;
  };

  ModelConfig config_ = ConfigOf(golden_["config"]);
  BaseWeights base_{config_};
  Model base_model_;
  LoraConfig lora_;
  std::unique_ptr<AdapterFile> adapter_;
  std::unique_ptr<WeightSource> weights_;
  const ScratchDirectory dir_;
  int runs_ = 0;
};

TEST_P(LoraGolden, PeftsAdapterGivesPeftsLogits) {
  const InMemoryModel model(Adapted(false), *weights_);
  const Tensor logits = model.Logits(GoldenTokens(kLength).unsqueeze(0)).view({kLength, -1});
  const std::vector<float> expected = golden_["logits"];
  EXPECT_LT((logits[kLength - 1] - torch::tensor(expected)).abs().max().item<double>(), 1e-5);
  const Tensor flat = logits.to(torch::kFloat64).flatten();
  const Tensor waves = torch::cos(torch::arange(flat.numel(), torch::kFloat64));
  EXPECT_NEAR((flat * waves).sum().item<double>(), golden_["logits_projection"], 2e-4);
}

// With a base as it is, or as it is left by quantisation.
class TrainedGolden : public LoraGolden {};

TEST_P(TrainedGolden, TwentyFiveStepsFromItAreAsInPeft) {
  const nlohmann::json saved = AdapterConfigJson(lora_, "/base", config_.transformer.conv1d);
  const std::string source = dir_ / "source";
  std::filesystem::create_directories(source);
  TrainHooks hooks;
  hooks.at_end = [&](const StateSource& state) {
    RETURN_IF_ERROR(
        ExportAdapter(state, saved, DType::kFloat32, dir_ / "adapter", TensorNamesOf(config_)));
    return ExportMerged(state, saved, source, dir_ / "merged").status();
  };
  const std::vector<double> expected = golden_["losses"];
  const std::vector<double> found = Train25(Options(true), hooks);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 2e-5 * expected[i]) << "step " << i + 1;
  }
  ExpectTensors(dir_ / "adapter/adapter_model.safetensors", golden_["trained"]);
  ExpectTensors(dir_ / "merged/model.safetensors", golden_["merged"]);
  if (IsFamily(GetParam())) {
    EXPECT_EQ(Train25(Options(false)), found);
  }
  // What was saved is an adapter that this reads, too, of the same kind.
  const auto again = AdapterFile::Open(dir_ / "adapter");
  ASSERT_TRUE(again.ok()) << again.status();
  LoraConfig kept = (*again)->config(), former = adapter_->config();
  if (absl::EndsWith(GetParam(), "_tied")) {
    // PEFT names the embedding twice, and not what it ties to it.
    EXPECT_EQ(kept.modules_to_save.back(), "lm_head");
    kept.modules_to_save = former.modules_to_save;
  }
  EXPECT_EQ(kept, former);
}

TEST_P(LoraGolden, GreedyTextsAreThoseOfPeft) {
  const Model model = Adapted(false);
  GeneratorOptions options;
  options.dtype = DType::kFloat32;
  options.positions = 64;
  options.prompt_tokens = 6;
  options.new_tokens = 20;
  options.device_memory_bytes = options.host_memory_bytes = uint64_t{64} << 20;
  auto generator = Generator::Create(model, weights_.get(), options);
  ASSERT_TRUE(generator.ok()) << generator.status();
  const Tensor prompt = GoldenTokens(6);
  std::vector<int64_t> next(prompt.data_ptr<int64_t>(), prompt.data_ptr<int64_t>() + 6), text;
  for (int i = 0; i < 20; ++i) {
    const auto logits = (*generator)->Append(next);
    ASSERT_TRUE(logits.ok()) << logits.status();
    next = {logits->argmax().item<int64_t>()};
    text.push_back(next[0]);
  }
  EXPECT_EQ(text, golden_["generated"].get<std::vector<int64_t>>());
}

std::vector<std::string> Names(bool quantised_too) {
  std::vector<std::string> names;
  for (const auto& [name, golden] : AllGolden().items()) {
    if (quantised_too || !golden.contains("base_dtype")) names.push_back(name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, LoraGolden, testing::ValuesIn(Names(false)),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Models, TrainedGolden, testing::ValuesIn(Names(true)),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace spillway
