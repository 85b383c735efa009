// The dry run against the model it runs, and against what is known from the config alone.
#include "engine/torch/dry_run.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "engine/estimate/model_costs.h"
#include "engine/families/read_model_shape.h"
#include "engine/layers/transformer.h"
#include "engine/model/model_shape.h"
#include "engine/torch/describe_model.h"
#include "engine/torch/device_memory.h"
#include "engine/torch/model_compute.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

struct Gpt2Case {
  int64_t vocabulary, positions, width, layers, heads, inner;
  bool tied;
};

nlohmann::json KeysOf(const Gpt2Case& c) {
  nlohmann::json config = {{"model_type", "gpt2"},         {"vocab_size", c.vocabulary},
                           {"n_positions", c.positions},   {"n_embd", c.width},
                           {"n_layer", c.layers},          {"n_head", c.heads},
                           {"tie_word_embeddings", c.tied}};
  if (c.inner > 0) config["n_inner"] = c.inner;
  return config;
}

struct Built {
  Model model;
  ModelDescription description;
  ModelShape shape;
};

Built Build(const Gpt2Case& c) {
  const auto document = ParseStrictJson(KeysOf(c).dump(), "config.json");
  Built built;
  built.model = *BuildTransformer(ParseModelConfig(*document)->transformer);
  built.description = *DescribeModel(built.model);
  built.shape = *ReadModelShape(*document);
  return built;
}

class Zeros : public Dataset {
 public:
  explicit Zeros(int64_t seq_len) : seq_len_(seq_len) {}
  int64_t size() const override { return 64; }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    const torch::Tensor zeros =
        torch::zeros({static_cast<int64_t>(samples.size()), seq_len_}, torch::kInt64);
    return Batch{zeros, zeros};
  }
  std::string fingerprint() const override { return ""; }

 private:
  const int64_t seq_len_;
};

// A clock of the work done, so that no test depends on what else the machine does. It advances by
// so much with every call of an operator that what ran once has run long enough.
class OperatorClock {
 public:
  OperatorClock()
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(&Count).scopes(
            {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}))) {}
  ~OperatorClock() { at::removeCallback(handle_); }
  double operator()() const { return 16.0 * calls_; }

 private:
  static std::unique_ptr<at::ObserverContext> Count(const at::RecordFunction&) {
    ++calls_;
    return nullptr;
  }

  static thread_local int64_t calls_;
  const at::CallbackHandle handle_;
};

thread_local int64_t OperatorClock::calls_ = 0;

DryRun Measure(const Built& built, DType dtype, const StepShape& step, Products products = {},
               uint64_t device_memory_bytes = 0) {
  TrainOptions options;
  options.device_memory_bytes = device_memory_bytes;
  options.dtype = dtype;
  options.compute = products.in_fp32 ? DType::kFloat32 : dtype;
  options.layers_in_fp8 = products.layers_in_fp8;
  options.micro_batch = step.micro_batch;
  options.accumulate = step.accumulate;
  Zeros data(step.seq_len);
  MemoryBudget budget("device", uint64_t{4} << 30);
  DeviceMemory::Install(&budget);
  absl::StatusOr<DryRun> found;
  {
    ModelCompute compute(built.model, built.description, &data, nullptr, options);
    const OperatorClock clock;
    found = DryRunner(&compute, std::ref(clock)).Measure();
  }
  DeviceMemory::Install(nullptr);
  EXPECT_TRUE(found.ok()) << found.status();
  return *found;
}

TEST(DryRun, TheShapeFromTheConfigIsTheModelThatIsTrained) {
  for (const Gpt2Case& c :
       {Gpt2Case{80, 256, 96, 3, 4, 0, true}, {500, 32, 64, 2, 2, 100, false}}) {
    const Built built = Build(c);
    EXPECT_EQ(ToJson(built.shape.model), ToJson(built.description));
    EXPECT_TRUE(built.shape.exact);
  }
}

TEST(DryRun, TheFormulaIsWithinAQuarterOfWhatIsMeasured) {
  at::set_num_threads(1);
  for (const Gpt2Case& c : {Gpt2Case{80, 256, 256, 3, 4, 0, true},
                            {5000, 256, 128, 2, 4, 0, true},
                            {200, 512, 128, 6, 4, 2048, false}}) {
    const Built built = Build(c);
    for (const auto& [dtype, products] : {std::pair{DType::kFloat32, Products()},
                                          {DType::kBFloat16, {.in_fp32 = true}},
                                          {DType::kBFloat16, {.layers_in_fp8 = true}}}) {
      for (const StepShape& step : {StepShape{1, 1, 256}, {4, 2, 128}}) {
        const DryRun dry_run = Measure(built, dtype, step, products);
        const double measured = dry_run.memory.total_bytes();
        const ComputeMemory expected =
            ComputeMemoryOf(built.shape, built.shape.model, dtype, step, products);
        const double formula = expected.total_bytes();
        const auto what = absl::StrCat(c.vocabulary, " x ", c.width, ", ", DTypeName(dtype), ", ",
                                       step.micro_batch, " x ", step.seq_len);
        EXPECT_NEAR(formula / measured, 1, 0.25) << what << ": " << formula << " for " << measured;
        EXPECT_EQ(expected.loss_chunks, dry_run.memory.loss_chunks) << what;
        const GraphCosts found = dry_run.graphs;
        const GraphCosts graphs = GraphCostsOf(built.shape, dtype, step, 1e9);
        ASSERT_EQ(graphs.bytes.size(), found.bytes.size());
        EXPECT_NEAR(double(graphs.bytes[1]) / found.bytes[1], 1, 0.25)
            << what << ": " << graphs.bytes[1] << " for " << found.bytes[1];
        EXPECT_EQ(graphs.bytes.back(), found.bytes.back());
      }
    }
  }
}

TEST(DryRun, EveryUnitHasItsSecondsAndMicroBatchesMultiplyThem) {
  const Built built = Build({80, 64, 64, 5, 4, 0, true});
  const DryRun one = Measure(built, DType::kFloat32, {1, 1, 64});
  const DryRun eight = Measure(built, DType::kFloat32, {1, 8, 64});
  ASSERT_EQ(one.forward_seconds.size(), 7u);
  ASSERT_EQ(one.backward_seconds.size(), 7u);
  for (int unit = 0; unit < 7; ++unit) {
    EXPECT_GT(one.backward_seconds[unit], 0);
    EXPECT_EQ(one.forward_seconds[unit] > 0, unit < 6);
  }
  // Like layers are measured once.
  EXPECT_EQ(one.forward_seconds[1], one.forward_seconds[5]);
  EXPECT_DOUBLE_EQ(eight.forward_seconds[1], 8 * one.forward_seconds[1]);
  EXPECT_DOUBLE_EQ(eight.backward_seconds[1], 8 * one.backward_seconds[1]);
  // Backward computes forward again.
  EXPECT_GT(one.backward_seconds[1], 2 * one.forward_seconds[1]);
  EXPECT_GT(eight.memory.total_bytes(), one.memory.total_bytes());
}

// It is told by a part of the loss, which needs as much memory as all of it.
TEST(DryRun, WhatDoesNotFitIsToldEarlyAndToTheByte) {
  at::set_num_threads(1);
  const Built built = Build({4096, 1024, 16, 1, 1, 0, true});
  const StepShape step = {9, 2, 1024};
  const DryRun whole = Measure(built, DType::kFloat32, step);
  const DryRun told = Measure(built, DType::kFloat32, step, {}, 1);
  EXPECT_EQ(whole.memory.loss_chunks, 3);
  EXPECT_EQ(told.memory.working_bytes, whole.memory.working_bytes);
  EXPECT_GT(whole.backward_seconds.back(), 0);
  EXPECT_EQ(told.backward_seconds.back(), 0) << "a part says nothing, and nobody asks";
}

TEST(DryRun, AKeptGraphSavesTheRecomputedForward) {
  const Built built = Build({80, 128, 128, 3, 4, 0, true});
  const DryRun one = Measure(built, DType::kFloat32, {1, 1, 128});
  const DryRun two = Measure(built, DType::kFloat32, {1, 2, 128});
  for (int unit = 1; unit < 4; ++unit) {
    EXPECT_GT(one.graphs.seconds_saved[unit], 0);
    EXPECT_LT(one.graphs.seconds_saved[unit], one.backward_seconds[unit]);
    EXPECT_EQ(two.graphs.bytes[unit], 2 * one.graphs.bytes[unit]);
  }
  EXPECT_EQ(one.graphs.seconds_saved.back(), 0);
}

}  // namespace
}  // namespace spillway
