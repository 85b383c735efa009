// A step's operations on places other than the host's memory: memory of a device's own, and
// LibTorch's meta device, which has no data, so that reading any on the way is an error.
#include "engine/torch/model_compute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cstring>
#include <memory>
#include <set>

#include "engine/data/window_sampler.h"
#include "engine/layers/transformer.h"
#include "engine/numeric/gradient_loops.h"
#include "engine/torch/block_attention.h"
#include "engine/torch/describe_model.h"
#include "tests/torch/host_device.h"
#include "tests/torch/recording_kernels.h"
#include "tests/torch/training_run.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using torch::Tensor;

constexpr int64_t kRowLen = 8;
constexpr int64_t kClasses = 20;

constexpr int64_t kWidth = 12;

// A model of what LibTorch has on the meta device: no look-ups, norms and logarithms.
class Lines : public Unit {
 public:
  std::string name() const override { return "lines"; }
  std::vector<ParameterSpec> parameters() const override {
    return {{"lines", {kClasses, kWidth}, {}}, {"unused", {7}, {}}};
  }
  Tensor Forward(const UnitContext& context, const std::vector<Tensor>& parameters,
                 const Tensor& ids) const override {
    const Tensor& lines = parameters[0];
    return context.Dropout(ids.to(lines.scalar_type()).unsqueeze(-1) * lines.sum(0), 0.1, 0);
  }
};

class Mix : public Unit {
 public:
  explicit Mix(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::vector<ParameterSpec> parameters() const override {
    return {{name_ + ".in", {kWidth, 3 * kWidth}, {}}, {name_ + ".out", {kWidth, kWidth}, {}}};
  }
  Tensor Forward(const UnitContext& context, const std::vector<Tensor>& p,
                 const Tensor& x) const override {
    AttentionOptions attention;
    attention.heads = 3;
    attention.dropout = 0.1;
    const Tensor mixed = AttendInBlocks(context, torch::matmul(x, p[0]), attention);
    return x + torch::gelu(torch::matmul(mixed, p[1]));
  }

 private:
  const std::string name_;
};

class Head : public LossUnit {
 public:
  std::string name() const override { return "head"; }
  std::vector<ParameterSpec> parameters() const override { return {{"scale", {kWidth}, {}}}; }
  std::vector<BorrowedParameter> borrowed() const override { return {{0, 0}}; }
  Tensor LossSum(const UnitContext&, const std::vector<Tensor>& p, const Tensor& x,
                 const Tensor& labels) const override {
    const Tensor distance =
        torch::matmul(x * p[0], p[1].t()).sub(labels.unsqueeze(1)).to(torch::kFloat32);
    return distance.mul(distance).sum();
  }
};

Model Plain() {
  Model model;
  model.units = {std::make_shared<Lines>(), std::make_shared<Mix>("a"), std::make_shared<Mix>("b"),
                 std::make_shared<Mix>("c")};
  model.loss = std::make_shared<Head>();
  return model;
}

// An embedding as LibTorch has it, whose gradient may be a sparse tensor.
class LookUp : public Unit {
 public:
  explicit LookUp(bool sparse, int64_t rows = kClasses) : sparse_(sparse), rows_(rows) {}
  std::string name() const override { return "look-up"; }
  std::vector<ParameterSpec> parameters() const override { return {{"rows", {rows_, kWidth}, {}}}; }
  int looks_up() const override { return 0; }
  Tensor Forward(const UnitContext&, const std::vector<Tensor>& parameters,
                 const Tensor& ids) const override {
    return torch::embedding(parameters[0], ids, -1, false, sparse_);
  }

 private:
  const bool sparse_;
  const int64_t rows_;
};

// Borrows nothing: the look-up's gradient is all that its rows get.
class OwnHead : public Head {
 public:
  std::vector<ParameterSpec> parameters() const override {
    return {{"scale", {kWidth}, {}}, {"lines", {kClasses, kWidth}, {}}};
  }
  std::vector<BorrowedParameter> borrowed() const override { return {}; }
};

Model LookUps(bool sparse, bool tied) {
  Model model;
  model.units = {std::make_shared<LookUp>(sparse), std::make_shared<Mix>("a")};
  model.loss = tied ? std::make_shared<Head>() : std::make_shared<OwnHead>();
  return model;
}

Model SmallGpt2(double dropout) {
  return *BuildTransformer(
      SmallGpt2Config(kClasses, 16, kWidth, 48, 3, 3, Dropouts(dropout)).transformer);
}

// An output that does not depend on the input: its parameter, as a view or copied.
class Given : public Unit {
 public:
  explicit Given(bool view) : view_(view) {}
  std::string name() const override { return "given"; }
  std::vector<ParameterSpec> parameters() const override {
    return {{"columns", {2, kWidth, kRowLen}, {}}};
  }
  Tensor Forward(const UnitContext&, const std::vector<Tensor>& parameters,
                 const Tensor&) const override {
    const Tensor rows = parameters[0].transpose(1, 2);
    return view_ ? rows : rows.clone();
  }

 private:
  const bool view_;
};

Model WithGiven(bool view) {
  Model model;
  model.units = {std::make_shared<Given>(view), std::make_shared<Mix>("a"),
                 std::make_shared<Mix>("b")};
  model.loss = std::make_shared<OwnHead>();
  return model;
}

uint64_t Padded(uint64_t elements) {
  return (elements + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
}

TrainOptions MicroBatches(int64_t count, DType dtype) {
  TrainOptions options;
  options.micro_batch = 2;
  options.accumulate = count;
  options.dtype = dtype;
  return options;
}

// One training step, its memory given by a place.
class OneStep {
 public:
  OneStep(const ComputePlace& place, const Model& model, DType dtype, int64_t micro_batches = 2)
      : place_(place),
        dtype_(dtype),
        model_(model),
        description_(*DescribeModel(model_)),
        data_(16, kRowLen, kClasses),
        compute_(model_, description_, &data_, nullptr, MicroBatches(micro_batches, dtype), place),
        schedule_(BuildTrainSchedule(DescribeSchedule(description_), UpdateMode::kImmediate)) {}

  ModelCompute& compute() { return compute_; }
  const StepSchedule& schedule() const { return schedule_; }

  // From now on the sums of all units are in the run's dtype.
  void RoundSums() { rounded_ = true; }

  // Of unit `spilled` the inputs leave the device; unit `kept` keeps its graph. -1: none.
  void Begin(int spilled, int kept) {
    spilled_ = spilled;
    std::vector<bool> keeps(description_.units.size(), false);
    if (kept >= 0) keeps[kept] = true;
    compute_.KeepGraphs(keeps);
    for (const UnitDescription& unit : description_.units) {
      const int64_t n = static_cast<int64_t>(Padded(unit.flat_parameters));
      weights_.push_back(*PlaceMemory::Create(place_, n * DTypeBytes(dtype_)));
      sums_.push_back(*PlaceMemory::Create(place_, n * sizeof(float)));
      if (!place_.where.is_cpu()) continue;  // addresses alone
      torch::manual_seed(n);
      const torch::Tensor values = (torch::randn({n}) / 5).to(ScalarTypeOf(dtype_));
      std::memcpy(weights_.back().data(), values.data_ptr(), values.nbytes());
      std::memset(sums_.back().data(), 0x7f, n * sizeof(float));
    }
    opened_.assign(description_.units.size(), false);
    const absl::Status status = compute_.BeginTrain(3, 1.0);
    ASSERT_TRUE(status.ok()) << status;
  }

  // From now on the weights are there only while an op computes with them. REQUIRES: Begin.
  void LoseWeights() {
    for (const PlaceMemory& weights : weights_) {
      lost_.emplace_back(weights.data(), WeightBytes(lost_.size()));
    }
  }

  absl::Status Run(const StepOp& op) {
    for (int unit : op.weights) {
      if (!lost_.empty()) std::memcpy(weights_[unit].data(), lost_[unit].data(), WeightBytes(unit));
    }
    const absl::Status status = Compute(op);
    for (int unit : op.weights) {
      if (!lost_.empty()) std::memset(weights_[unit].data(), 0x7f, WeightBytes(unit));
    }
    return status;
  }

  // Every byte of the gradient sums.
  std::string Sums() const {
    std::string bytes;
    for (size_t unit = 0; unit < sums_.size(); ++unit) {
      bytes.append(sums_[unit].data(), SumsOf(unit) * (rounded_ ? DTypeBytes(dtype_) : 4));
    }
    return bytes;
  }
  // Of the rounded gradient, whatever the sums are in.
  std::string Gradient() const {
    if (rounded_) return Sums();
    std::string bytes;
    for (size_t unit = 0; unit < sums_.size(); ++unit) {
      std::string rounded(SumsOf(unit) * DTypeBytes(dtype_), '\0');
      RoundGradient(dtype_, sums_[unit].data(), rounded.data(), SumsOf(unit));
      bytes += rounded;
    }
    return bytes;
  }
  float* sums(int unit) const { return reinterpret_cast<float*>(sums_[unit].data()); }
  const ModelDescription& description() const { return description_; }

 private:
  absl::Status Compute(const StepOp& op) {
    OpBuffers buffers;
    buffers.op = &op;
    for (int unit : op.weights) buffers.weights.push_back(weights_[unit].data());
    for (int unit : op.gradients) {
      buffers.gradients.push_back(sums_[unit].data());
      buffers.fresh.push_back(!opened_[unit]);
      buffers.rounded.push_back(rounded_);
      opened_[unit] = true;
    }
    if (op.unit == spilled_ && op.kind != OpKind::kLoss) {
      buffers.inputs = inputs_;
      buffers.inputs_bytes = sizeof(inputs_);
    }
    return compute_.Run(buffers);
  }

  uint64_t WeightBytes(size_t unit) const { return SumsOf(unit) * DTypeBytes(dtype_); }
  uint64_t SumsOf(size_t unit) const { return Padded(description_.units[unit].flat_parameters); }

  const ComputePlace place_;
  const DType dtype_;
  const Model model_;
  const ModelDescription description_;
  MadeTokens data_;
  ModelCompute compute_;
  const StepSchedule schedule_;
  std::vector<PlaceMemory> weights_, sums_;
  std::vector<std::string> lost_;  // [unit] the weights; empty: they stay where they are
  std::vector<bool> opened_;
  int spilled_ = -1;
  bool rounded_ = false;
  alignas(64) char inputs_[16384];
};

struct StepResult {
  double loss;
  std::string sums;
};
StepResult RunStep(const ComputePlace& place, DType dtype) {
  OneStep step(place, SmallGpt2(/*dropout=*/0.1), dtype);
  step.Begin(/*spilled=*/1, /*kept=*/2);
  for (const StepOp& op : step.schedule().ops) {
    const absl::Status status = step.Run(op);
    EXPECT_TRUE(status.ok()) << status;
  }
  return {step.compute().loss_sum(), step.Sums()};
}

// Rows of 12 parameters, some of which lie in two tiles.
TEST(ModelCompute, WhatAStepReadsFirstAreTheTilesOfItsTokens) {
  constexpr int64_t kRows = 8000;
  Model model = LookUps(/*sparse=*/false, /*tied=*/false);
  model.units[0] = std::make_shared<LookUp>(/*sparse=*/false, kRows);
  const ModelDescription description = *DescribeModel(model);
  const TrainOptions options = MicroBatches(2, DType::kFloat32);
  MadeTokens data(16, kRowLen, kRows);
  ModelCompute compute(model, description, &data, nullptr, options);
  const StateLayout layout = DescribeState(description, options.optimizer, options.dtype, 2048);
  ASSERT_TRUE(compute.BeginTrain(3, 1.0).ok());
  for (const int64_t step : {3, 4}) {  // as it was loaded, and the one behind it
    const std::vector<int64_t> samples =
        SamplesFrom(options.order, options.seed, data.size(), 4 * (step - 1), 4);
    const Tensor ids = data.Get(samples)->inputs;
    std::set<int> expected;
    for (int64_t i = 0; i < ids.numel(); ++i) {
      const int64_t first = ids.data_ptr<int64_t>()[i] * kWidth;
      expected.insert(
          {static_cast<int>(first / 2048), static_cast<int>((first + kWidth - 1) / 2048)});
    }
    ASSERT_LT(expected.size(), layout.NumTiles(0));
    const absl::StatusOr<FirstRead> read = compute.ReadFirst(step, layout);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->unit, 0);
    EXPECT_EQ(read->tiles, std::vector<int>(expected.begin(), expected.end()));
  }
}

TEST(ModelCompute, AUnitThatReadsAllOfItselfIsReadWhole) {
  OneStep step(ComputePlace(), Plain(), DType::kFloat32);
  step.Begin(-1, -1);
  const StateLayout layout = DescribeState(step.description(), {}, DType::kFloat32, 2048);
  EXPECT_EQ(*step.compute().ReadFirst(3, layout), FirstRead());
}

TEST(ModelCompute, MemoryOfADevicesOwnChangesNoBit) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const StepResult host = RunStep(ComputePlace(), dtype);
    EXPECT_GT(host.loss, 1);
    HostDevice device;
    ComputePlace place;
    place.device = &device;
    const StepResult separate = RunStep(place, dtype);
    EXPECT_EQ(separate.loss, host.loss);
    EXPECT_EQ(separate.sums, host.sums);
    EXPECT_EQ(device.allocations, 10);
  }
}

TEST(ModelCompute, SumsOfTwoTermsNeedNoFp32) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    std::string expected;
    for (bool rounded : {false, true}) {
      OneStep step(ComputePlace(), SmallGpt2(/*dropout=*/0.1), dtype, /*micro_batches=*/1);
      if (rounded) step.RoundSums();
      step.Begin(-1, -1);
      for (const StepOp& op : step.schedule().ops) {
        const absl::Status status = step.Run(op);
        ASSERT_TRUE(status.ok()) << status;
      }
      if (!rounded) expected = step.Gradient();
      EXPECT_EQ(step.Gradient(), expected) << DTypeName(dtype);
    }
  }
}

TEST(ModelCompute, AnOutputThatIsAViewOfAParameterIsNotLostWithIt) {
  for (int kept : {-1, 0}) {
    std::string expected;
    for (bool view : {false, true}) {
      OneStep step(ComputePlace(), WithGiven(view), DType::kFloat32);
      step.Begin(/*spilled=*/-1, kept);
      step.LoseWeights();
      for (const StepOp& op : step.schedule().ops) {
        const absl::Status status = step.Run(op);
        ASSERT_TRUE(status.ok()) << status;
      }
      if (!view) expected = step.Sums();
      EXPECT_EQ(step.Sums(), expected) << "graph kept of unit " << kept;
      EXPECT_GT(torch::from_blob(step.sums(0), {kWidth}).abs().max().item<float>(), 0.01);
    }
  }
}

TEST(ModelCompute, SparseGradientsOfAnyUnitAreAddedAsDenseOnesWouldBe) {
  for (bool tied : {false, true}) {
    Tensor expected;
    for (bool sparse : {false, true}) {
      OneStep step(ComputePlace(), LookUps(sparse, tied), DType::kFloat32);
      step.Begin(-1, -1);
      for (const StepOp& op : step.schedule().ops) {
        const absl::Status status = step.Run(op);
        ASSERT_TRUE(status.ok()) << status;
      }
      const Tensor sums = torch::from_blob(step.sums(0), {kClasses, kWidth}).clone();
      if (!sparse) expected = sums;
      EXPECT_TRUE(torch::allclose(sums, expected, 1e-5, 1e-6)) << (tied ? "tied" : "untied");
      EXPECT_GT(sums.abs().max().item<float>(), 0.01);
    }
  }
}

TEST(ModelCompute, MoreTermsThanThereIsRoomForAreAnErrorAndNotRoundedTwice) {
  OneStep step(ComputePlace(), SmallGpt2(0), DType::kBFloat16, /*micro_batches=*/2);
  step.RoundSums();
  step.Begin(-1, -1);
  absl::Status status;
  for (const StepOp& op : step.schedule().ops) {
    if (status.ok()) status = step.Run(op);
  }
  // Two of the loss, and the first of the embedding's own backward.
  EXPECT_THAT(std::string(status.message()), HasSubstr("more gradients than in the dry run"));
}

TEST(ModelCompute, AParameterIsBorrowedOnce) {
  class Twice : public Head {
    std::vector<BorrowedParameter> borrowed() const override { return {{0, 0}, {0, 0}}; }
  };
  Model model = Plain();
  model.loss = std::make_shared<Twice>();
  const absl::Status status = DescribeModel(model).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("twice"));
}

TEST(ModelCompute, ADryRunTakesTheDevicesMemoryAndGivesItBack) {
  HostDevice device;
  ComputePlace place;
  place.device = &device;
  OneStep step(place, SmallGpt2(0), DType::kFloat32);
  const auto found = step.compute().MeasureNeeds();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_GT(device.allocations, 0);
  EXPECT_TRUE(device.allocated.empty());
  EXPECT_GT(device.synchronizations, 8) << "nothing is timed before it is done";
  device.most_bytes = 100;
  EXPECT_EQ(step.compute().MeasureNeeds().status().code(), absl::StatusCode::kResourceExhausted);
}

// On a GPU each look at a number is a wait for all that was put into its stream.
TEST(ModelCompute, NothingIsReadOnTheWayButTheLossAtTheEndOfTheStep) {
  RecordingKernels kernels(torch::kMeta);
  ComputePlace place;
  place.where = torch::kMeta;
  OneStep step(place, Plain(), DType::kBFloat16);
  step.Begin(/*spilled=*/-1, /*kept=*/2);
  const auto& ops = step.schedule().ops;
  for (const StepOp& op : ops) {
    const absl::Status status = step.Run(op);
    if (&op == &ops.back()) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("Meta"))
          << "the loss has not been looked at";
    } else {
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  // Gradients of both micro-batches, twice of what the head borrows, have gone where the op's
  // buffers said.
  EXPECT_THAT(kernels.calls, Contains(absl::StrCat("first ", kClasses * kWidth)).Times(1));
  EXPECT_THAT(kernels.calls, Contains(absl::StrCat("add ", kClasses * kWidth)).Times(3));
  for (int unit = 0; unit < 5; ++unit) {
    EXPECT_THAT(kernels.addresses, Contains(step.sums(unit)));
  }
  EXPECT_EQ(step.compute().label_count(), 2 * 2 * kRowLen);
}

TEST(ModelCompute, WhatNoGradientReachesIsZeroed) {
  RecordingKernels kernels(torch::kMeta);
  ComputePlace place;
  place.where = torch::kMeta;
  OneStep step(place, Plain(), DType::kFloat32);
  step.Begin(-1, -1);
  for (const StepOp& op : step.schedule().ops) (void)step.Run(op);
  // Of "lines" the parameter that is not used and what is behind it, the gap before it included.
  const uint64_t end = kClasses * kWidth;
  EXPECT_THAT(kernels.calls, Contains(absl::StrCat("zero ", (Padded(end) - end) * sizeof(float))));
  EXPECT_THAT(kernels.addresses, Contains(step.sums(0) + end));
}

}  // namespace
}  // namespace spillway
