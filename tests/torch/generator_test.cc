// Text token by token: against transformers, against the whole text at once, and the same in
// every placement. Golden data by tests/golden/make_generate.py.
#include "engine/generation/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "engine/families/model_config.h"
#include "engine/generation/sampling.h"
#include "engine/generation/text_units.h"
#include "engine/layers/transformer.h"
#include "engine/machine/memory_limits.h"
#include "engine/torch/describe_model.h"
#include "engine/torch/init_source.h"
#include "engine/weights/master_weights.h"
#include "engine/weights/named_weights.h"
#include "engine/weights/safetensors_model.h"
#include "io/base/format_bytes.h"
#include "tests/scratch_directory.h"
#include "tests/torch/in_memory_model.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

using torch::Tensor;

struct Loaded {
  explicit Loaded(const std::string& name, const nlohmann::json& changes = {})
      : dir(absl::StrCat(SPILLWAY_SOURCE_DIR, "/tests/golden/", name)),
        files(std::move(*SafetensorsModel::Open(dir))) {
    JsonDocument document = *ReadStrictJson(dir + "/config.json");
    if (!changes.is_null()) document.value.update(changes);
    config = *ParseModelConfig(document);
    model = *BuildTransformer(config.transformer);
    weights = std::move(*OpenNamedWeights(TensorNamesOf(config), files.get()));
  }

  std::unique_ptr<Generator> Start(GeneratorOptions options) {
    options.positions = config.transformer.positions;
    auto generator = Generator::Create(model, weights.get(), options);
    TORCH_CHECK(generator.ok(), generator.status().ToString());
    return *std::move(generator);
  }

  std::string dir;
  std::unique_ptr<SafetensorsModel> files;
  ModelConfig config;
  Model model;
  std::unique_ptr<WeightSource> weights;
};

GeneratorOptions Options(DType dtype, int64_t prompt, int64_t tokens) {
  GeneratorOptions options;
  options.dtype = dtype;
  options.prompt_tokens = prompt;
  options.new_tokens = tokens;
  return options;
}

using Tokens = std::vector<int64_t>;

// Greedy tokens, and the logits of each on the way.
struct Greedy {
  Tokens tokens;
  std::vector<Tensor> logits;
};
Greedy Continue(Generator& generator, const Tokens& prompt, int64_t count) {
  Greedy out;
  Tokens next = prompt;
  for (int64_t i = 0; i < count; ++i) {
    const auto logits = generator.Append(next);
    TORCH_CHECK(logits.ok(), logits.status().ToString());
    next = {logits->argmax().item<int64_t>()};
    out.tokens.push_back(next[0]);
    out.logits.push_back(logits->clone());
  }
  return out;
}

TEST(Generator, GreedyTokensAreTransformers) {
  const auto golden =
      ReadStrictJson(absl::StrCat(SPILLWAY_SOURCE_DIR, "/tests/golden/generate.json"))->value;
  ASSERT_EQ(golden["cases"].size(), 9);
  for (const auto& one : golden["cases"]) {
    SCOPED_TRACE(one.dump());
    Loaded loaded(one["model"]);
    const Tokens prompt = one["prompt"], expected = one["tokens"];
    const int64_t count = expected.size();
    const auto generator =
        loaded.Start(Options(DType::kFloat32, static_cast<int64_t>(prompt.size()), count));
    EXPECT_EQ(Continue(*generator, prompt, count).tokens, expected);
  }
}

TEST(Generator, EveryTokensLogitsAreThoseOfTheWholeTextAtOnce) {
  const std::vector<nlohmann::json> variants = {
      {{"activation_function", "gelu_new"}},
      {{"scale_attn_weights", false}, {"scale_attn_by_inverse_layer_idx", true}},
      {{"reorder_and_upcast_attn", true}, {"scale_attn_by_inverse_layer_idx", true}}};
  const Tokens text = {5, 17, 44, 2, 60, 31, 8, 8, 23, 11, 0, 19};
  for (const nlohmann::json& variant : variants) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(absl::StrCat(variant.dump(), " ", std::string(DTypeName(dtype))));
      Loaded loaded("gpt2", variant);
      const bool fp32 = dtype == DType::kFloat32;
      const InMemoryModel plain(loaded.model, *loaded.weights,
                                fp32 ? torch::kFloat32 : torch::kBFloat16);
      const Tensor whole = plain.Logits(torch::tensor(text, torch::kInt64).unsqueeze(0));
      // First a prompt of several, then pieces of one and of three.
      const auto generator = loaded.Start(Options(dtype, 4, 8));
      size_t at = 0;
      for (const size_t piece : {4, 1, 3, 1, 1, 1, 1}) {
        const auto logits = generator->Append({text.begin() + at, text.begin() + at + piece});
        ASSERT_TRUE(logits.ok()) << logits.status();
        at += piece;
        const Tensor expected = whole[at - 1].to(torch::kFloat32);
        EXPECT_LT((*logits - expected).abs().max().item<double>(),
                  (fp32 ? 1e-5 : 0.05) * std::max(1.0, expected.abs().max().item<double>()))
            << "after " << at;
      }
    }
  }
}

// A model of 3.3 MiB in bf16.
class GeneratorPlacement : public testing::Test {
 protected:
  GeneratorPlacement() {
    options_.positions = config_.transformer.positions;
    const auto in_memory = std::move(*Generator::Create(model_, &weights_, options_));
    EXPECT_EQ(OnNvme(*in_memory), 0);
    expected_ = Continue(*in_memory, prompt_, 20);
    EXPECT_EQ(in_memory->stats().io.read_bytes, 0);
  }

  static uint64_t OnNvme(const Generator& generator) {
    return generator.plan().Residency().weights[static_cast<int>(Tier::kNvme)];
  }
  // In the least memory that does, of those tried.
  std::unique_ptr<Generator> Tight(WeightSource* weights) {
    GeneratorOptions options = options_;
    for (options.device_memory_bytes = 4 * kMiB; options.device_memory_bytes < 6 * kMiB;
         options.device_memory_bytes += kMiB / 64) {
      for (options.host_memory_bytes = kMiB / 2; options.host_memory_bytes < 5 * kMiB / 2;
           options.host_memory_bytes += kMiB / 16) {
        auto tight = Generator::Create(model_, weights, options);
        if (tight.ok()) return *std::move(tight);
        EXPECT_EQ(ExitCodeOf(tight.status()), 3) << tight.status();
      }
    }
    ADD_FAILURE() << "no budget does";
    return nullptr;
  }
  // Most is read for every token, to the same bits.
  void ExpectTheSameBits(Generator& generator) {
    const uint64_t on_nvme = OnNvme(generator);
    EXPECT_GT(on_nvme, 3 * kMiB / 2);
    const Greedy found = Continue(generator, prompt_, 20);
    EXPECT_GT(generator.stats().io.read_bytes, 15 * on_nvme);
    ASSERT_EQ(found.tokens, expected_.tokens);
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(torch::equal(found.logits[i], expected_.logits[i])) << i;
    }
  }

  const ScratchDirectory scratch_;
  const ModelConfig config_ = SmallGpt2Config(200, 32, 128, 512, 8, 4);
  const Model model_ = *BuildTransformer(config_.transformer);
  InitSource weights_{model_, /*seed=*/5};
  const Tokens prompt_ = {48, 137, 67};
  GeneratorOptions options_ = Options(DType::kBFloat16, 3, 20);
  Greedy expected_;
};

TEST_F(GeneratorPlacement, TheSameBitsWithWeightsOnNvmeAsInMemory) {
  // Of no memory at all it says what would do.
  options_.swap_paths = {scratch_.path()};
  GeneratorOptions none = options_;
  none.host_memory_bytes = none.device_memory_bytes = 4096;
  const auto refused = Generator::Create(model_, &weights_, none);
  ASSERT_EQ(ExitCodeOf(refused.status()), 3) << refused.status();
  EXPECT_THAT(refused.status().message(), testing::HasSubstr("--device-memory"));

  const auto generator = Tight(&weights_);
  ExpectTheSameBits(*generator);
  // Nothing has a name there, even while it runs.
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
}

// `from` in a file, in bf16, at offsets that are no block's.
class FileWeights : public WeightSource {
 public:
  FileWeights(const Model& model, WeightSource* from, const std::string& path)
      : from_(from), path_(path) {
    std::string bytes(13, '-');
    const ModelDescription described = *DescribeModel(model);
    for (const UnitDescription& unit : described.units) {
      for (const ParameterDescription& parameter : unit.parameters) {
        std::vector<float> values(parameter.elements);
        TORCH_CHECK(from->Read(parameter.name, 0, parameter.elements, values.data()).ok());
        std::string packed(2 * parameter.elements, 0);
        char* planes[] = {packed.data(), nullptr};
        TORCH_CHECK(StoreMaster(WeightFormat::kBFloat16Alone, values.data(), 0, parameter.elements,
                                planes));
        StoredTensor& tensor = stored_[parameter.name];
        tensor = {path, 0, parameter.name, DType::kBFloat16, bytes.size(), packed.size()};
        bytes += packed + "-";
      }
    }
    std::ofstream(path) << bytes;
    for (auto& [name, tensor] : stored_) tensor.file_bytes = bytes.size();
  }

  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override {
    return from_->Read(name, first, count, out);
  }
  std::optional<StoredTensor> Stored(const std::string& name) const override {
    return stored_.at(name);
  }
  // From now on it is no tensor of the run's dtype.
  void Convert(const std::string& name) { stored_.at(name).dtype = DType::kFloat32; }

 private:
  WeightSource* const from_;
  const std::string path_;
  std::map<std::string, StoredTensor> stored_;
};

TEST_F(GeneratorPlacement, WhatIsInFilesIsReadThereAndNeedsNoSwap) {
  FileWeights files(model_, &weights_, scratch_ / "weights");
  const auto generator = Tight(&files);
  ExpectTheSameBits(*generator);

  // Of another dtype it is copied, which has to go somewhere.
  files.Convert(DescribeModel(model_)->units[3].parameters.back().name);
  GeneratorOptions tight = options_;
  tight.device_memory_bytes = 5 * kMiB;
  tight.host_memory_bytes = kMiB;
  const auto refused = Generator::Create(model_, &files, tight);
  ASSERT_EQ(ExitCodeOf(refused.status()), 3) << refused.status();
  EXPECT_THAT(refused.status().message(), testing::HasSubstr("--swap"));
  const std::string swap = scratch_ / "swap";
  std::filesystem::create_directory(swap);
  options_.swap_paths = {swap};
  ExpectTheSameBits(*Tight(&files));
  EXPECT_TRUE(std::filesystem::is_empty(swap));
}

TEST_F(GeneratorPlacement, AFileThatIsCutMeanwhileIsNamed) {
  FileWeights files(model_, &weights_, scratch_ / "weights");
  const auto generator = Tight(&files);
  ASSERT_TRUE(generator->Append(prompt_).ok());
  std::filesystem::resize_file(scratch_ / "weights", 1000);
  absl::Status status;
  for (int i = 0; i < 3 && status.ok(); ++i) status = generator->Append({1}).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), testing::HasSubstr(scratch_ / "weights"));
}

TEST(Generator, ATextThatOutgrowsThePositionsGoesOnWithItsLaterHalf) {
  Loaded loaded("gpt2");
  const int64_t positions = loaded.config.transformer.positions;  // 12
  const Tokens prompt = {5, 17, 44, 2, 60, 31, 8, 8, 23, 11};
  const auto generator = loaded.Start(Options(DType::kFloat32, 10, 20));
  const Greedy found = Continue(*generator, prompt, 10);
  Tokens text = prompt;
  text.insert(text.end(), found.tokens.begin(), found.tokens.end());
  // Thirteen tokens are one too many: seven of them are kept.
  const Tokens window(text.begin() + 13 - positions / 2 - 1, text.begin() + 13);
  const auto fresh = loaded.Start(Options(DType::kFloat32, 7, 5));
  const Greedy expected = Continue(*fresh, window, 5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(torch::equal(found.logits[3 + i], expected.logits[i])) << i;
  }

  const auto too_long = Generator::Create(loaded.model, loaded.weights.get(), [&] {
    GeneratorOptions options = Options(DType::kFloat32, positions + 1, 1);
    options.positions = positions;
    return options;
  }());
  EXPECT_EQ(too_long.status().code(), absl::StatusCode::kInvalidArgument);
}

// A unit of somebody who has not written ForwardNext.
class WithoutNext : public Unit {
 public:
  explicit WithoutNext(std::shared_ptr<const Unit> unit) : unit_(std::move(unit)) {}
  std::string name() const override { return unit_->name(); }
  std::vector<ParameterSpec> parameters() const override { return unit_->parameters(); }
  std::vector<BorrowedParameter> borrowed() const override { return unit_->borrowed(); }
  Tensor Forward(const UnitContext& context, const std::vector<Tensor>& parameters,
                 const Tensor& x) const override {
    return unit_->Forward(context, parameters, x);
  }

 private:
  const std::shared_ptr<const Unit> unit_;
};

TEST(Generator, AModelWithoutForwardNextIsComputedAnew) {
  Loaded loaded("gpt2");
  const Tokens prompt = {5, 17, 44};
  const auto with = loaded.Start(Options(DType::kFloat32, 3, 9));
  EXPECT_GT(with->kept_bytes(), 0);
  const Greedy expected = Continue(*with, prompt, 9);
  for (auto& unit : loaded.model.units) unit = std::make_shared<WithoutNext>(unit);
  const auto without = loaded.Start(Options(DType::kFloat32, 3, 9));
  EXPECT_EQ(without->kept_bytes(), 0);
  const Greedy found = Continue(*without, prompt, 9);
  EXPECT_EQ(found.tokens, expected.tokens);
  for (int i = 0; i < 9; ++i) {
    EXPECT_LT((found.logits[i] - expected.logits[i]).abs().max().item<double>(), 1e-4) << i;
  }
}

// A view of a parameter, which the next unit's may have replaced by the time that unit reads it.
class FirstRows : public WithoutNext {
 public:
  using WithoutNext::WithoutNext;
  Tensor Forward(const UnitContext&, const std::vector<Tensor>& parameters,
                 const Tensor& x) const override {
    return parameters[0].narrow(0, 0, x.size(1)).unsqueeze(0);
  }
};

TEST(TextUnits, AnOutputThatIsAViewOfAParameterIsNotLostWithIt) {
  Loaded loaded("gpt2");
  loaded.model.units[0] = std::make_shared<FirstRows>(loaded.model.units[0]);
  const auto units = TextUnits::Of(loaded.model);
  ASSERT_TRUE(units.ok()) << units.status();
  const Tensor rows = torch::randn({16, 4});
  const Tensor expected = rows.slice(0, 0, 3).clone();
  TextPiece piece;
  piece.length = 3;
  piece.x = torch::zeros({1, 3}, torch::kInt64);
  const Tensor out = units->Run(0, {rows}, Tensor(), /*fp32_products=*/false, piece);
  rows.fill_(7);
  EXPECT_TRUE(torch::equal(out.squeeze(0), expected));
}

TEST(Sampling, TemperatureZeroTakesTheFirstOfTheLargest) {
  EXPECT_EQ(SampleToken(torch::tensor({1.f, 3.f, 3.f, 2.f}), {0, 50, 1, 1}, 0), 1);
}

// How often each of 4 tokens is drawn with these logits.
std::vector<double> Frequencies(const SamplingOptions& options) {
  const Tensor logits = torch::tensor({0.0f, 2.0f, 1.0f, -1.0f});
  const Tensor scores = ScoresOf(logits, {}, 0, options);
  std::vector<double> counts(4);
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) counts[SampleToken(scores, options, i)] += 1.0 / kDraws;
  return counts;
}

TEST(Sampling, TokensAreDrawnByTheirChances) {
  const Tensor logits = torch::tensor({0.0, 2.0, 1.0, -1.0});
  const auto near = [](const Tensor& chances) {
    std::vector<testing::Matcher<double>> matchers;
    for (int i = 0; i < 4; ++i) {
      const double chance = chances[i].item<double>();
      matchers.push_back(chance == 0 ? testing::Matcher<double>(0.0)
                                     : testing::DoubleNear(chance, 0.012));
    }
    return testing::ElementsAreArray(matchers);
  };
  const double none = -std::numeric_limits<double>::infinity();
  EXPECT_THAT(Frequencies({1, 0, 1, 1}), near(logits.softmax(0)));
  EXPECT_THAT(Frequencies({0.5, 0, 1, 2}), near((logits / 0.5).softmax(0)));
  EXPECT_THAT(Frequencies({1, 2, 1, 3}), near(torch::tensor({none, 2.0, 1.0, none}).softmax(0)));
  // Chances are .64, .24, .09, .03: the first alone has .6 of them; for .65 and .85 it takes
  // two, for .9 three.
  EXPECT_THAT(Frequencies({1, 0, 0.6, 4}), near(torch::tensor({0.0, 1.0, 0.0, 0.0})));
  EXPECT_THAT(Frequencies({1, 0, 0.65, 4}), near(torch::tensor({none, 2.0, 1.0, none}).softmax(0)));
  EXPECT_THAT(Frequencies({1, 0, 0.9, 4}), near(torch::tensor({0.0, 2.0, 1.0, none}).softmax(0)));
  // top-k comes first.
  EXPECT_THAT(Frequencies({1, 1, 0.9, 4}), near(torch::tensor({0.0, 1.0, 0.0, 0.0})));
}

TEST(Sampling, ATokenDependsOnSeedAndIndexOnly) {
  const Tensor logits = torch::zeros({1000});
  const SamplingOptions one{1, 0, 1, 1}, two{1, 0, 1, 2};
  EXPECT_EQ(SampleToken(logits, one, 5), SampleToken(logits, one, 5));
  EXPECT_NE(SampleToken(logits, one, 5), SampleToken(logits, one, 6));
  EXPECT_NE(SampleToken(logits, one, 5), SampleToken(logits, two, 5));
}

}  // namespace
}  // namespace spillway
