// Tensors that forwards change: once for every micro-batch, in order, wherever anything lives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>

#include "engine/torch/describe_model.h"
#include "engine/torch/init_source.h"
#include "engine/weights/safetensors.h"
#include "tests/scratch_directory.h"
#include "tests/torch/in_memory_model.h"
#include "tests/torch/training_run.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using torch::Tensor;

constexpr int64_t kBufferWidth = 12, kBufferRows = 4, kBufferClasses = 7;

// A matrix and a batch norm with running statistics; the output also depends on how often it was
// computed, which is no good idea, but shows in the bits of everything behind it.
class NormUnit : public Unit {
 public:
  explicit NormUnit(std::string name) : name_(std::move(name)) {}

  std::string name() const override { return name_; }
  std::vector<ParameterSpec> parameters() const override {
    return {{name_ + ".weight", {kBufferWidth, kBufferWidth}, Init::Normal(0, 0.4)},
            {name_ + ".gain", {kBufferWidth}, Init::Constant(1)},
            {name_ + ".bias", {kBufferWidth}, Init::Constant(0)}};
  }
  std::vector<BufferSpec> buffers() const override {
    return {{name_ + ".running_mean", {kBufferWidth}},
            {name_ + ".running_var", {kBufferWidth}, 1},
            {name_ + ".count", {}}};
  }
  Tensor Forward(const UnitContext& context, const std::vector<Tensor>& p,
                 const Tensor& x) const override {
    Tensor mean = context.buffers()[0], var = context.buffers()[1], count = context.buffers()[2];
    const Tensor y = torch::matmul(x.to(p[0].scalar_type()), p[0]).flatten(0, 1);
    const Tensor normed = torch::batch_norm(y.to(torch::kFloat), p[1].to(torch::kFloat),
                                            p[2].to(torch::kFloat), mean, var, context.training(),
                                            /*momentum=*/0.1, 1e-5, /*cudnn_enabled=*/false);
    const Tensor scaled = torch::tanh(normed) * (1 + 0.01 * count);
    if (context.training()) {
      torch::NoGradGuard no_grad;
      count.add_(1);
    }
    return scaled.to(p[0].scalar_type()).view(x.sizes());
  }

 private:
  const std::string name_;
};

class NormClasses : public LossUnit {
 public:
  std::string name() const override { return "classes"; }
  std::vector<ParameterSpec> parameters() const override {
    return {{"classes.weight", {kBufferWidth, kBufferClasses}, Init::Normal(0, 0.4)}};
  }
  Tensor LossSum(const UnitContext&, const std::vector<Tensor>& p, const Tensor& x,
                 const Tensor& labels) const override {
    return torch::nll_loss(torch::log_softmax(torch::mm(x, p[0]).to(torch::kFloat32), 1), labels,
                           {}, at::Reduction::Sum);
  }
};

class WaveData : public Dataset {
 public:
  int64_t size() const override { return 24; }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    const int64_t count = static_cast<int64_t>(samples.size());
    Batch batch{torch::empty({count, kBufferRows, kBufferWidth}), {}};
    batch.labels = torch::empty({count, kBufferRows}, torch::kInt64);
    for (int64_t i = 0; i < count; ++i) {
      const Tensor numbers = torch::arange(kBufferRows * kBufferWidth).view({kBufferRows, -1});
      batch.inputs[i].copy_(torch::sin(numbers * 0.3 + samples[i]) + 0.1 * samples[i]);
      batch.labels[i].copy_((torch::arange(kBufferRows) * 3 + samples[i]) % kBufferClasses);
    }
    return batch;
  }
  std::string fingerprint() const override { return "waves"; }
};

class UnitBuffers : public testing::Test {
 protected:
  UnitBuffers() {
    for (int i = 0; i < 3; ++i) {
      model_.units.push_back(std::make_shared<NormUnit>(absl::StrCat("norm.", i)));
    }
    model_.loss = std::make_shared<NormClasses>();
    std::filesystem::create_directories(dir_ / "swap");
  }

  TrainOptions Options(DType dtype) {
    TrainOptions options;
    options.output = dir_ / absl::StrCat("run", ++runs_);
    options.device_memory_bytes = options.host_memory_bytes = uint64_t{64} << 20;
    options.threads = 1;
    options.dtype = dtype;
    options.steps = 6;
    options.micro_batch = 2;
    options.accumulate = 3;
    options.order = SampleOrder::kSequential;
    options.optimizer.learning_rate = 0.01;
    options.clip = 0;
    return options;
  }

  Model model_;
  const ScratchDirectory dir_;
  int runs_ = 0;
};

TEST_F(UnitBuffers, AreChangedByEveryMicroBatchOnceAndInOrder) {
  WaveData data;
  TrainOptions options = Options(DType::kFloat32);
  options.steps = 1;
  InitSource weights(model_, /*seed=*/42);
  const RunOutcome outcome = TrainToTheEnd(model_, data, nullptr, &weights, options);
  const auto after = *SafetensorsFile::Open(options.output + "/exported/model.safetensors");

  // The same by hand.
  InMemoryModel plain(model_, weights);
  const auto parameters = plain.Parameters();
  torch::NoGradGuard no_grad;
  std::vector<std::vector<Tensor>> expected;
  for (int unit = 0; unit < 3; ++unit) {
    expected.push_back(
        {torch::zeros({kBufferWidth}), torch::ones({kBufferWidth}), torch::zeros({})});
  }
  for (int64_t micro = 0; micro < 3; ++micro) {
    Tensor x = data.Get({2 * micro, 2 * micro + 1})->inputs;
    for (int unit = 0; unit < 3; ++unit) {
      const std::string name = absl::StrCat("norm.", unit);
      const UnitContext context = UnitContext(42, 1, unit, {}, true).WithBuffers(expected[unit]);
      x = model_.units[unit]->Forward(
          context,
          {parameters.at(name + ".weight"), parameters.at(name + ".gain"),
           parameters.at(name + ".bias")},
          x);
    }
  }
  for (int unit = 0; unit < 3; ++unit) {
    const char* names[] = {"running_mean", "running_var", "count"};
    for (int i = 0; i < 3; ++i) {
      Tensor found = torch::empty_like(expected[unit][i]);
      const std::string name = absl::StrCat("norm.", unit, ".", names[i]);
      ASSERT_TRUE(after->ReadFp32(name, 0, found.numel(), found.data_ptr<float>()).ok()) << name;
      EXPECT_TRUE(torch::equal(found, expected[unit][i])) << name;
      EXPECT_EQ(outcome.digests[name].size(), 1u);
    }
    EXPECT_EQ(expected[unit][2].item<float>(), 3);
  }
}

TEST_F(UnitBuffers, TheSameBitsInEveryPlacement) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    WaveData data;
    const RunOutcome expected = TrainToTheEnd(model_, data, &data, nullptr, Options(dtype));
    for (const bool recompute : {false, true}) {
      for (const UpdateChoice update : {UpdateChoice::kImmediate, UpdateChoice::kDeferred}) {
        TrainOptions options = Options(dtype);
        options.swap_paths = {dir_ / "swap"};
        options.offload_param = options.offload_optimizer = options.offload_activations =
            Offload::kNvme;
        if (!recompute) options.offload_activations = Offload::kNone;
        options.recompute = recompute ? Recompute::kAll : Recompute::kAuto;
        options.update = update;
        options.tile_parameters = 2048;
        options.eval_every = 2;
        options.commit_every = 2;
        const RunOutcome found = TrainToTheEnd(model_, data, &data, nullptr, options);
        EXPECT_EQ(found.result.kept_graphs > 0, !recompute);
        EXPECT_EQ(found.digests, expected.digests);
        EXPECT_EQ(found.inspected["digests"], expected.digests);
        for (size_t i = 0; i < expected.rows.size(); ++i) {
          EXPECT_EQ(found.rows[i]["loss"], expected.rows[i]["loss"]) << i;
        }
        EXPECT_EQ(found.evaluations.back()["loss"], expected.evaluations.back()["loss"]);
      }
    }
  }
}

TEST_F(UnitBuffers, GoOnFromACommitAndFromAModel) {
  WaveData data;
  const RunOutcome whole = TrainToTheEnd(model_, data, nullptr, nullptr, Options(DType::kFloat32));
  TrainOptions options = Options(DType::kFloat32);
  options.steps = 4;
  options.schedule.kind = ScheduleSpec::Kind::kConstant;
  const RunOutcome first = TrainToTheEnd(model_, data, nullptr, nullptr, options);
  EXPECT_NE(first.digests, whole.digests);
  options.steps = 6;
  options.resume = true;
  TrainOptions at_once = Options(DType::kFloat32);
  at_once.schedule.kind = ScheduleSpec::Kind::kConstant;
  const RunOutcome expected = TrainToTheEnd(model_, data, nullptr, nullptr, at_once);
  EXPECT_EQ(TrainToTheEnd(model_, data, nullptr, nullptr, options).digests, expected.digests);

  // What was exported is where another run begins.
  class Exported : public WeightSource {
   public:
    explicit Exported(const std::string& path) : file_(*SafetensorsFile::Open(path)) {}
    absl::Status Read(const std::string& name, uint64_t from, uint64_t count, float* out) override {
      return file_->ReadFp32(name, from, count, out);
    }

   private:
    const std::unique_ptr<SafetensorsFile> file_;
  } weights(options.output + "/exported/model.safetensors");
  TrainOptions again = Options(DType::kFloat32);
  again.steps = 1;
  again.optimizer.learning_rate = 0;
  const RunOutcome next = TrainToTheEnd(model_, data, nullptr, &weights, again);
  const auto after = *SafetensorsFile::Open(again.output + "/exported/model.safetensors");
  float count = 0;
  ASSERT_TRUE(after->ReadFp32("norm.1.count", 0, 1, &count).ok());
  EXPECT_EQ(count, 3 * 7);
}

TEST_F(UnitBuffers, HaveANameOfTheirOwn) {
  model_.units.push_back(std::make_shared<NormUnit>("norm.1"));
  const auto status = DescribeModel(model_).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("norm.1"));
}

}  // namespace
}  // namespace spillway
