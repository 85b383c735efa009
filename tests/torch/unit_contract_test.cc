// Units, losses and datasets that others write: what they may do gives autograd's gradients in
// every placement, and what they may not is refused by a message that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/torch/init_source.h"
#include "engine/weights/safetensors.h"
#include "tests/scratch_directory.h"
#include "tests/torch/in_memory_model.h"
#include "tests/torch/training_run.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int64_t kSide = 4, kSorts = 3;

// Whatever a test says.
struct AnyUnit : Unit {
  std::string own_name, own_kind, own_input;
  std::vector<ParameterSpec> specs;
  std::vector<BufferSpec> own_buffers;
  std::vector<int> read;
  std::function<Tensor(const UnitContext&, const Tensors&, const Tensor&)> forward;

  std::string name() const override { return own_name; }
  std::string kind() const override { return own_kind.empty() ? own_name : own_kind; }
  std::string input() const override { return own_input; }
  std::vector<ParameterSpec> parameters() const override { return specs; }
  std::vector<BufferSpec> buffers() const override { return own_buffers; }
  std::vector<int> reads() const override { return read; }
  Tensor Forward(const UnitContext& context, const Tensors& p, const Tensor& x) const override {
    return forward(context, p, x);
  }
};

struct AnyLoss : LossUnit {
  int64_t chunk_rows = 1024;
  std::function<Tensor(const Tensors&, const Tensor&, const Tensor&)> sum, judge;

  std::string name() const override { return "sorts"; }
  std::vector<ParameterSpec> parameters() const override {
    return {{"sorts.weight", {kSorts, kSide}, Init::Normal(0, 0.5)}};
  }
  int64_t ChunkRows() const override { return chunk_rows; }
  Tensor LossSum(const UnitContext&, const Tensors& p, const Tensor& x,
                 const Tensor& labels) const override {
    return sum(p, x, labels);
  }
  Tensor Judge(const UnitContext&, const Tensors& p, const Tensor& x,
               const Tensor& labels) const override {
    return judge ? judge(p, x, labels) : Tensor();
  }
};

struct AnyData : Dataset {
  std::function<Batch(absl::Span<const int64_t>)> get;
  std::function<void()> prepare, largest;

  int64_t size() const override { return 64; }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override { return get(samples); }
  void Prepare(absl::Span<const int64_t>) override {
    if (prepare) prepare();
  }
  absl::StatusOr<std::optional<Batch>> Largest(int64_t) override {
    if (largest) largest();
    return std::nullopt;
  }
  std::string fingerprint() const override { return "any"; }
};

Tensor ThroughTanh(const Tensors& p, const Tensor& x) {
  return torch::tanh(torch::linear(x, p[0], p[1]));
}

Batch RowsOf(absl::Span<const int64_t> samples) {
  const auto count = static_cast<int64_t>(samples.size());
  Batch batch{torch::empty({count, kSide}), torch::empty({count}, torch::kInt64)};
  for (int64_t i = 0; i < count; ++i) {
    batch.inputs[i].copy_(torch::sin(torch::arange(kSide) * 0.7 + samples[i]));
    batch.labels[i] = samples[i] % kSorts;
  }
  return batch;
}

class UnitContract : public testing::Test {
 protected:
  UnitContract() {
    std::filesystem::create_directories(dir_ / "swap");
    for (const auto& unit : {first_, second_, third_}) model_.units.push_back(unit);
    const char* names[] = {"first", "second", "third"};
    for (int i = 0; i < 3; ++i) {
      AnyUnit& unit = *std::vector{first_, second_, third_}[i];
      unit.own_name = names[i];
      unit.specs = {{unit.own_name + ".w", {kSide, kSide}, Init::Normal(0, 0.5)},
                    {unit.own_name + ".b", {kSide}, Init::Normal(0, 0.1)}};
      unit.forward = [](const UnitContext&, const Tensors& p, const Tensor& x) {
        return ThroughTanh(p, x);
      };
    }
    loss_->sum = [](const Tensors& p, const Tensor& x, const Tensor& labels) {
      return torch::cross_entropy_loss(torch::linear(x, p[0]), labels, {}, at::Reduction::Sum,
                                       kIgnoredLabel);
    };
    model_.loss = loss_;
    data_.get = &RowsOf;
  }

  // One step of SGD at a rate of 1, which shows the gradient in the weights.
  TrainOptions Options() {
    TrainOptions options;
    options.output = dir_ / absl::StrCat("run", ++runs_);
    options.device_memory_bytes = options.host_memory_bytes = uint64_t{64} << 20;
    options.threads = 1;
    options.dtype = DType::kFloat32;
    options.steps = 1;
    options.micro_batch = 4;
    options.accumulate = 1;
    options.order = SampleOrder::kSequential;
    options.optimizer.kind = OptimizerSpec::Kind::kSgd;
    options.optimizer.learning_rate = 1;
    options.optimizer.weight_decay = 0;
    options.clip = 0;
    return options;
  }

  // With graphs kept, recomputed, and all on disk: the weights are the same.
  RunOutcome TrainEverywhere(TrainOptions options) {
    const RunOutcome kept = TrainToTheEnd(model_, data_, nullptr, nullptr, options);
    EXPECT_GT(kept.result.kept_graphs, 0);
    for (const bool on_disk : {false, true}) {
      options.output += "+";
      options.recompute = Recompute::kAll;
      if (on_disk) {
        options.swap_paths = {dir_ / "swap"};
        options.offload_param = options.offload_optimizer = options.offload_activations =
            Offload::kNvme;
      }
      const RunOutcome found = TrainToTheEnd(model_, data_, nullptr, nullptr, options);
      EXPECT_EQ(found.digests, kept.digests) << (on_disk ? "on disk" : "recomputed");
    }
    return kept;
  }

  // What a step makes of the weights, everywhere, is what autograd does to the whole graph.
  void ExpectAutogradsStep(TrainOptions options) {
    TrainEverywhere(options);
    InitSource weights(model_, options.seed);
    const InMemoryModel plain(model_, weights);
    std::vector<int64_t> samples(options.micro_batch);
    std::iota(samples.begin(), samples.end(), 0);
    const Batch batch = data_.get(samples);
    (plain.LossSum(batch) / batch.labels.ne(kIgnoredLabel).sum()).backward();
    const auto after = *SafetensorsFile::Open(options.output + "/exported/model.safetensors");
    for (const auto& [name, parameter] : plain.Parameters()) {
      Tensor trained = torch::empty_like(parameter);
      ASSERT_TRUE(after->ReadFp32(name, 0, trained.numel(), trained.data_ptr<float>()).ok());
      Tensor expected = parameter.detach();
      if (parameter.grad().defined()) expected = expected - parameter.grad();
      EXPECT_TRUE(torch::allclose(trained, expected, 1e-5, 1e-6)) << name;
    }
  }

  std::string Refusal(bool evaluates = false) {
    const auto trained = Train(model_, data_, evaluates ? &data_ : nullptr, nullptr, Options(), {});
    return std::string(trained.status().message());
  }

  const std::shared_ptr<AnyUnit> first_ = std::make_shared<AnyUnit>(),
                                 second_ = std::make_shared<AnyUnit>(),
                                 third_ = std::make_shared<AnyUnit>();
  const std::shared_ptr<AnyLoss> loss_ = std::make_shared<AnyLoss>();
  Model model_;
  AnyData data_;
  const ScratchDirectory dir_;
  int runs_ = 0;
};

TEST_F(UnitContract, AFieldMayBeAViewOfSomethingLarger) {
  for (const bool expanded : {false, true}) {
    data_.get = [expanded](absl::Span<const int64_t> samples) {
      Batch batch = RowsOf(samples);
      const Tensor row = torch::cos(torch::arange(3 * kSide) * 0.9).view({3, kSide});
      batch.fields["view"] =
          expanded ? row.narrow(0, 1, 1).expand({batch.inputs.size(0), kSide})
                   : torch::cat({batch.inputs, batch.inputs + 1}, 1).narrow(1, 2, kSide);
      return batch;
    };
    second_->own_input = "view";
    third_->read = {0};
    third_->forward = [](const UnitContext& context, const Tensors& p, const Tensor& x) {
      return ThroughTanh(p, x + context.values()[0]);
    };
    ExpectAutogradsStep(Options());
  }
}

TEST_F(UnitContract, AUnitMaySendNoGradientBack) {
  third_->forward = [](const UnitContext&, const Tensors& p, const Tensor& x) {
    return ThroughTanh(p, x.detach());
  };
  ExpectAutogradsStep(Options());
  // What autograd of an output of one number would take for 1.
  second_->specs[0].shape = {1, kSide};
  second_->specs[1].shape = {1};
  third_->specs[0].shape = {kSide, 1};
  TrainOptions one = Options();
  one.micro_batch = 1;
  ExpectAutogradsStep(one);
}

TEST_F(UnitContract, ALossOfNoLabelsMayBeAConstant) {
  const auto sum = loss_->sum;
  loss_->chunk_rows = 1;
  loss_->sum = [sum](const Tensors& p, const Tensor& x, const Tensor& labels) {
    return labels.eq(kIgnoredLabel).all().item<bool>() ? torch::zeros({}) : sum(p, x, labels);
  };
  data_.get = [](absl::Span<const int64_t> samples) {
    Batch batch = RowsOf(samples);
    batch.labels[1] = kIgnoredLabel;
    return batch;
  };
  ExpectAutogradsStep(Options());
  loss_->sum = [](const Tensors&, const Tensor& x, const Tensor&) { return x.sum().detach(); };
  EXPECT_THAT(Refusal(), HasSubstr("although labels count"));
}

TEST_F(UnitContract, NothingThatIsGivenIsChangedInPlace) {
  data_.get = [](absl::Span<const int64_t> samples) {
    Batch batch = RowsOf(samples);
    batch.fields["field"] = batch.inputs.clone();
    return batch;
  };
  second_->read = {0};
  for (int i = 0; i < 4; ++i) {
    second_->forward = [i](const UnitContext& context, const Tensors& p, const Tensor& x) {
      torch::NoGradGuard no_grad;
      Tensor changed = std::vector{x, context.values()[0], context.field("field"), p[1]}[i];
      changed.mul_(2);
      return x * 1;
    };
    EXPECT_THAT(Refusal(), HasSubstr("unit second changes")) << i;
  }
}

TEST_F(UnitContract, RandomNumbersAreTheContexts) {
  third_->forward = [](const UnitContext&, const Tensors& p, const Tensor& x) {
    return ThroughTanh(p, torch::dropout(x, 0.5, true));
  };
  EXPECT_THAT(Refusal(), HasSubstr("unit third draws random numbers"));
}

// Its gradient is what it has saved.
struct GivesItsWeight : torch::autograd::Function<GivesItsWeight> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const Tensor& weight) {
    context->save_for_backward({weight});
    return (x * weight).sum(1, true).expand_as(x).contiguous();
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    return {context->get_saved_variables()[0], gradients[0] * 0.5};
  }
};

TEST_F(UnitContract, AGradientMayBeAViewOfAWeight) {
  second_->specs = {{"second.w", {4, kSide}, Init::Normal(0, 0.5)}};
  second_->forward = [](const UnitContext&, const Tensors& p, const Tensor& x) {
    return GivesItsWeight::apply(x, p[0]);
  };
  ExpectAutogradsStep(Options());
}

TEST_F(UnitContract, WhatNeedsWeightsOtherThanZeroIsTrained) {
  second_->forward = [](const UnitContext&, const Tensors& p, const Tensor& x) {
    return torch::linear(x, p[0] / p[0].norm(2, {1}, true), p[1]);
  };
  third_->specs = {{"third.w", {kSide, kSide}, Init::Normal(0, 1)}};
  third_->forward = [](const UnitContext&, const Tensors& p, const Tensor& x) {
    return torch::matmul(x, torch::inverse(p[0])).clamp(-3, 3);
  };
  ExpectAutogradsStep(Options());
}

TEST_F(UnitContract, ABufferMayBeReadWithAGradient) {
  second_->own_buffers = {{"second.scale", {kSide}, 1}};
  second_->forward = [](const UnitContext& context, const Tensors& p, const Tensor& x) {
    if (context.training()) {
      torch::NoGradGuard no_grad;
      Tensor scale = context.buffers()[0];
      scale.mul_(0.9).add_(0.1 * x.abs().mean(0));
    }
    return ThroughTanh(p, x) * context.buffers()[0];
  };
  ExpectAutogradsStep(Options());
  TrainOptions options = Options();
  options.accumulate = 3;
  options.steps = 2;
  TrainEverywhere(options);
}

TEST_F(UnitContract, WhatWasMeasuredAsAnotherUnitIsSaidBesideAnError) {
  first_->own_kind = second_->own_kind = "same";
  second_->forward = [](const UnitContext&, const Tensors& p, const Tensor& x) {
    return ThroughTanh(p, x).narrow(1, 0, 2);
  };
  third_->specs[0].shape = {kSide, 2};
  EXPECT_THAT(Refusal(), HasSubstr("unit second was taken to compute as unit first"));
}

TEST_F(UnitContract, SamplesThatGrowAreToldOfLargest) {
  const auto rows = [](int64_t count, int64_t length) {
    return Batch{torch::ones({count, length, kSide}), torch::zeros({count, length}, torch::kInt64)};
  };
  int calls = 0;
  data_.get = [&](absl::Span<const int64_t> samples) {
    return rows(static_cast<int64_t>(samples.size()), ++calls == 1 ? 2 : 3000);
  };
  TrainOptions options = Options();
  options.swap_paths = {dir_ / "swap"};
  options.offload_activations = Offload::kNvme;
  options.recompute = Recompute::kAll;
  const auto trained = Train(model_, data_, nullptr, nullptr, options, {});
  EXPECT_THAT(std::string(trained.status().message()), HasSubstr("Dataset::Largest"));
}

TEST_F(UnitContract, WhatIsJudgedIsPairs) {
  loss_->judge = [](const Tensors&, const Tensor&, const Tensor& labels) {
    return labels.to(torch::kFloat);
  };
  EXPECT_THAT(Refusal(/*evaluates=*/true), HasSubstr("[any, 2]"));
}

TEST_F(UnitContract, ABatchIsOfTheSamplesThatWereAskedFor) {
  const auto refusal = [&](const std::function<void(Batch&)>& spoil) {
    data_.get = [spoil](absl::Span<const int64_t> samples) {
      Batch batch = RowsOf(samples);
      batch.fields["field"] = batch.inputs;
      spoil(batch);
      return batch;
    };
    return Refusal();
  };
  EXPECT_THAT(refusal([](Batch& batch) { batch.inputs = batch.inputs.narrow(0, 0, 3); }),
              HasSubstr("inputs of 3 samples where 4 were asked for"));
  EXPECT_THAT(refusal([](Batch& batch) { batch.labels = torch::zeros({5}, torch::kInt64); }),
              HasSubstr("labels of 5 samples where 4 were asked for"));
  EXPECT_THAT(refusal([](Batch& batch) {
                batch.fields["field"] = torch::ones({1, kSide});
              }),
              HasSubstr("\"field\""));
  EXPECT_THAT(refusal([](Batch& batch) { batch.labels = Tensor(); }), HasSubstr("no labels"));
  EXPECT_THAT(refusal([](Batch& batch) { batch.inputs = Tensor(); }), HasSubstr("no inputs"));
  EXPECT_THAT(refusal([](Batch& batch) { batch.labels = batch.labels.to(torch::kUInt8); }),
              HasSubstr("must be int64"));
}

TEST_F(UnitContract, WhateverADatasetThrowsIsAnError) {
  data_.prepare = [] { throw std::runtime_error("no disk"); };
  EXPECT_THAT(Refusal(), HasSubstr("preparing a batch: no disk"));
  data_.largest = [] { throw 42; };
  EXPECT_THAT(Refusal(), HasSubstr("no std::exception"));
}

TEST_F(UnitContract, LinearNamesShapesThatDoNotFit) {
  for (const bool scalar : {false, true}) {
    second_->forward = [scalar](const UnitContext& context, const Tensors& p, const Tensor& x) {
      return context.Linear(scalar ? x.sum() : x.narrow(1, 0, 2), p[0], p[1]);
    };
    EXPECT_THAT(Refusal(), HasSubstr(scalar ? "Linear: x is []" : "Linear: x is [4, 2], weight"));
  }
}

}  // namespace
}  // namespace spillway
