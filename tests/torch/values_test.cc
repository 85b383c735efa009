// Models that are no chains: fields of a batch, and outputs that several units read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>

#include "engine/torch/init_source.h"
#include "engine/torch/value_flow.h"
#include "engine/weights/safetensors.h"
#include "tests/scratch_directory.h"
#include "tests/torch/in_memory_model.h"
#include "tests/torch/training_run.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using torch::Tensor;

constexpr int64_t kValueWidth = 16, kValueRows = 6, kValueClasses = 11;

// x, or a field's rows, through a matrix; with the means of what else it reads added. A penalised
// one adds an eighth of its outputs' mean square to the loss.
class Reader : public Unit {
 public:
  Reader(std::string name, std::string input, std::vector<int> reads, bool masked = false,
         bool penalised = false)
      : name_(std::move(name)),
        input_(std::move(input)),
        reads_(std::move(reads)),
        masked_(masked),
        penalised_(penalised) {}

  std::string name() const override { return name_; }
  std::string input() const override { return input_; }
  std::vector<int> reads() const override { return reads_; }
  std::vector<ParameterSpec> parameters() const override {
    return {{name_ + ".weight", {kValueWidth, kValueWidth}, Init::Normal(0, 0.4)}};
  }
  Tensor Forward(const UnitContext& context, const std::vector<Tensor>& p,
                 const Tensor& x) const override {
    Tensor y = torch::matmul(x.to(p[0].scalar_type()), p[0]);
    for (const Tensor& value : context.values()) {
      Tensor more = value;
      if (masked_) more = more * context.field("mask").to(more.scalar_type()).unsqueeze(-1);
      y = y + more.mean(1, true);
    }
    y = torch::tanh(y);
    if (penalised_) {
      context.AddLoss(y.to(torch::kFloat32).square().mean() * (context.labels() / 8.0));
    }
    return context.Dropout(y, 0.1, 0);
  }

 private:
  const std::string name_, input_;
  const std::vector<int> reads_;
  const bool masked_, penalised_;
};

class Scores : public LossUnit {
 public:
  std::string name() const override { return "scores"; }
  std::vector<ParameterSpec> parameters() const override {
    return {{"scores.weight", {kValueWidth, kValueClasses}, Init::Normal(0, 0.4)}};
  }
  Tensor LossSum(const UnitContext&, const std::vector<Tensor>& p, const Tensor& x,
                 const Tensor& labels) const override {
    return torch::nll_loss(torch::log_softmax(torch::mm(x, p[0]).to(torch::kFloat32), 1), labels,
                           {}, at::Reduction::Sum);
  }
};

// An encoder of two units, and a decoder that begins with another field and reads the encoder in
// each unit; one reads the encoder's first unit too, and its own decoder's. Three add to the loss.
Model TwoSides() {
  Model model;
  model.units = {std::make_shared<Reader>("encoder.0", "", std::vector<int>{}, false, true),
                 std::make_shared<Reader>("encoder.1", "", std::vector<int>{}),
                 std::make_shared<Reader>("decoder.0", "other", std::vector<int>{}),
                 std::make_shared<Reader>("decoder.1", "", std::vector<int>{1}, true, true),
                 std::make_shared<Reader>("decoder.2", "", std::vector<int>{1, 0, 2}),
                 std::make_shared<Reader>("decoder.3", "", std::vector<int>{1}, false, true)};
  model.loss = std::make_shared<Scores>();
  return model;
}

class Pairs : public Dataset {
 public:
  explicit Pairs(bool with_mask = true) : with_mask_(with_mask) {}
  int64_t size() const override { return 24; }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    const int64_t count = static_cast<int64_t>(samples.size());
    Batch batch{torch::empty({count, kValueRows, kValueWidth}), {}};
    batch.labels = torch::empty({count, kValueRows}, torch::kInt64);
    Tensor other = torch::empty_like(batch.inputs), mask = torch::empty({count, kValueRows});
    for (int64_t i = 0; i < count; ++i) {
      const Tensor numbers = torch::arange(kValueRows * kValueWidth).view({kValueRows, -1});
      batch.inputs[i].copy_(torch::sin(numbers * 0.3 + samples[i]));
      other[i].copy_(torch::cos(numbers * 0.7 - samples[i]));
      mask[i].copy_(torch::arange(kValueRows) <= samples[i] % kValueRows);
      batch.labels[i].copy_((torch::arange(kValueRows) * 3 + samples[i]) % kValueClasses);
    }
    batch.fields["other"] = other;
    if (with_mask_) batch.fields["mask"] = mask;
    return batch;
  }
  std::string fingerprint() const override { return "pairs"; }

 private:
  const bool with_mask_;
};

class Values : public testing::Test {
 protected:
  Values() { std::filesystem::create_directories(dir_ / "swap"); }

  TrainOptions Options(DType dtype, int runs) const {
    TrainOptions options;
    options.output = dir_ / absl::StrCat("run", runs);
    options.device_memory_bytes = options.host_memory_bytes = uint64_t{64} << 20;
    options.threads = 1;
    options.dtype = dtype;
    options.steps = 6;
    options.micro_batch = 2;
    options.accumulate = 2;
    options.order = SampleOrder::kSequential;
    options.optimizer.learning_rate = 0.01;
    options.clip = 0;
    return options;
  }

  const Model model_ = TwoSides();
  const ScratchDirectory dir_;
};

class ValuesIn : public Values, public testing::WithParamInterface<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, ValuesIn, testing::Values(DType::kFloat32, DType::kFloat16),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

TEST_P(ValuesIn, AStepsGradientsAreAutogradsOfTheWholeGraph) {
  // Of fp16 the losses are scaled, which what a unit adds must be too.
  const double tolerance = GetParam() == DType::kFloat32 ? 1e-6 : 2e-3;
  Pairs data;
  InitSource weights(model_, /*seed=*/42);
  const InMemoryModel plain(model_, weights);
  // SGD with a rate of 1 shows the gradient in the weights.
  TrainOptions options = Options(GetParam(), 0);
  options.steps = 1;
  options.micro_batch = 4;
  options.accumulate = 1;
  options.optimizer.kind = OptimizerSpec::Kind::kSgd;
  options.optimizer.learning_rate = 1;
  options.optimizer.weight_decay = 0;
  const RunOutcome outcome = TrainToTheEnd(model_, data, nullptr, &weights, options);
  const Batch batch = *data.Get({0, 1, 2, 3});
  const Tensor loss = plain.LossSum(batch) / (4 * kValueRows);
  EXPECT_NEAR(outcome.rows[0]["loss"], loss.item<double>(), tolerance);
  loss.backward();
  const auto after = *SafetensorsFile::Open(dir_ / "run0/exported/model.safetensors");
  for (const auto& [name, parameter] : plain.Parameters()) {
    Tensor trained = torch::empty_like(parameter);
    ASSERT_TRUE(after->ReadFp32(name, 0, trained.numel(), trained.data_ptr<float>()).ok());
    const Tensor expected = parameter.detach() - parameter.grad();
    EXPECT_GT(parameter.grad().abs().max().item<double>(), 1e-4) << name;
    EXPECT_LT((trained - expected).abs().max().item<double>(), tolerance) << name;
  }
}

TEST_F(Values, TheSameBitsInEveryPlacement) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Pairs data;
    int runs = 0;
    const RunOutcome expected = TrainToTheEnd(model_, data, &data, nullptr, Options(dtype, ++runs));
    for (const bool recompute : {false, true}) {
      for (const UpdateChoice update : {UpdateChoice::kImmediate, UpdateChoice::kDeferred}) {
        TrainOptions options = Options(dtype, ++runs);
        options.output += std::string(DTypeName(dtype));
        options.swap_paths = {dir_ / "swap"};
        options.offload_param = options.offload_optimizer = options.offload_activations =
            Offload::kNvme;
        options.recompute = recompute ? Recompute::kAll : Recompute::kAuto;
        options.update = update;
        options.tile_parameters = 2048;
        const RunOutcome found = TrainToTheEnd(model_, data, &data, nullptr, options);
        EXPECT_EQ(found.digests, expected.digests);
        for (size_t i = 0; i < expected.rows.size(); ++i) {
          EXPECT_EQ(found.rows[i]["loss"], expected.rows[i]["loss"]) << i;
        }
        EXPECT_EQ(found.evaluations.back()["loss"], expected.evaluations.back()["loss"]);
      }
    }
    std::filesystem::remove_all(dir_ / "run1");
  }
}

class AddingScores : public Scores {
 public:
  Tensor LossSum(const UnitContext& context, const std::vector<Tensor>& p, const Tensor& x,
                 const Tensor& labels) const override {
    const Tensor loss = Scores::LossSum(context, p, x, labels);
    context.AddLoss(loss);
    return loss;
  }
};

TEST_F(Values, ALossUnitIsToldToGiveItsWholeLossAtOnce) {
  Pairs data;
  Model model = TwoSides();
  model.loss = std::make_shared<AddingScores>();
  const auto trained = Train(model, data, nullptr, nullptr, Options(DType::kFloat32, 1), {});
  EXPECT_THAT(std::string(trained.status().message()), HasSubstr("not by AddLoss"));
}

TEST_F(Values, WhatIsReadMustBeThere) {
  Pairs data(/*with_mask=*/false);
  const auto missing = Train(model_, data, nullptr, nullptr, Options(DType::kFloat32, 1), {});
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("no field \"mask\""));
  const auto refusal = [](Model model) {
    return std::string(ValueFlow::Of(model).status().message());
  };
  Model later = TwoSides();
  later.units[3] = std::make_shared<Reader>("eager", "", std::vector<int>{4});
  EXPECT_THAT(refusal(later), HasSubstr("\"eager\" reads the output of unit 4"));
  Model unread = TwoSides();
  unread.units[1] = std::make_shared<Reader>("encoder.1", "other", std::vector<int>{});
  unread.units[4] = std::make_shared<Reader>("decoder.2", "", std::vector<int>{});
  EXPECT_THAT(refusal(unread), HasSubstr("\"encoder.0\" is read by no unit"));
}

}  // namespace
}  // namespace spillway
