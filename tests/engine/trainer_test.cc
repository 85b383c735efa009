// The whole engine but LibTorch: real plan, store, I/O, optimizer, commits; a stub computes.
#include "engine/trainer.h"

#include <signal.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "absl/strings/str_cat.h"
#include "engine/inspect_run.h"
#include "engine/memory_limits.h"
#include "engine/state_source.h"
#include "engine/stop_signal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

// The gradient of sum((w - target)^2) / 2 for every parameter, per unit, in bf16 or fp32.
class StubCompute : public StepCompute {
 public:
  StubCompute(const ModelDescription& model, DType dtype) : model_(model), dtype_(dtype) {}

  absl::StatusOr<DryRun> MeasureNeeds() override {
    const size_t units = model_.units.size();
    return DryRun{1 << 20, std::vector<double>(units, 1e-4), std::vector<double>(units, 3e-4)};
  }
  absl::Status BeginTrain(int64_t step, double) override {
    step_ = step;
    loss_ = 0;
    return absl::OkStatus();
  }
  absl::Status BeginEvaluate(int64_t, int64_t) override {
    loss_ = 0;
    return absl::OkStatus();
  }
  int64_t evaluation_samples() const override { return 1; }
  int64_t evaluation_samples_at_once() const override { return 1; }
  absl::Status Run(const OpBuffers& buffers) override {
    for (size_t i = 0; i < buffers.op->weights.size(); ++i) {
      const int unit = buffers.op->weights[i];
      const uint64_t count = model_.units[unit].flat_parameters;
      for (uint64_t j = 0; j < count; ++j) {
        const float w =
            dtype_ == DType::kBFloat16
                ? FloatFromBFloat16(reinterpret_cast<const uint16_t*>(buffers.weights[i])[j])
                : reinterpret_cast<const float*>(buffers.weights[i])[j];
        const float error = w - static_cast<float>(j % 7) * 0.1f;
        if (buffers.op->kind != OpKind::kForward && unit == buffers.op->unit) {
          loss_ += double{error} * error / 2;
        }
        if (buffers.gradients.empty()) continue;
        float& sum = buffers.gradients[i][j];
        sum = (buffers.fresh[i] ? 0 : sum) + error * (1.0f + 0.01f * static_cast<float>(step_ % 5));
      }
      if (buffers.gradients.empty()) continue;
      const uint64_t padded =
          (count + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
      std::fill(buffers.gradients[i] + count, buffers.gradients[i] + padded, 0.0f);
    }
    if (stop_after && buffers.op->kind == OpKind::kLoss && step_ == stop_after) raise(SIGTERM);
    return absl::OkStatus();
  }
  double loss_sum() const override { return loss_; }
  int64_t label_count() const override { return 1; }
  uint64_t peak_bytes() const override { return 0; }

  int64_t stop_after = 0;

 private:
  const ModelDescription& model_;
  const DType dtype_;
  int64_t step_ = 0;
  double loss_ = 0;
};

class CountingWeights : public WeightSource {
 public:
  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override {
    for (uint64_t i = 0; i < count; ++i) {
      out[i] = static_cast<float>((first + i + name.size()) % 101) * 0.03f - 1.5f;
    }
    return absl::OkStatus();
  }
};

class TrainerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/trainer";
    std::filesystem::remove_all(folder_);
    for (const char* name : {"/a", "/b", "/c"}) {
      std::filesystem::create_directories(folder_ + name);
    }
    for (int i = 0; i < 4; ++i) {
      UnitDescription unit;
      unit.name = absl::StrCat("u", i);
      unit.parameters.push_back({absl::StrCat("u", i, ".weight"), {90 + i, 61}});
      unit.parameters.push_back({absl::StrCat("u", i, ".bias"), {61}});
      if (i == 3) unit.borrows = {0};
      model_.units.push_back(unit);
    }
    ASSERT_EQ(LayOutParameters(model_), absl::OkStatus());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  TrainOptions Options(const std::string& name) const {
    TrainOptions options;
    options.output = folder_ + "/" + name;
    options.steps = 12;
    options.threads = 1;
    options.tile_parameters = 2048;
    options.device_memory_bytes = options.host_memory_bytes = 64 << 20;
    options.optimizer.learning_rate = 0.01;
    return options;
  }

  // Digests of the state at the end, which a fresh process would find.
  absl::StatusOr<nlohmann::json> Train(const TrainOptions& options, TrainResult* result,
                                       int64_t stop_after = 0) {
    auto storage = RunStorage::Open(options);
    if (!storage.ok()) return storage.status();
    StubCompute compute(model_, options.dtype);
    compute.stop_after = stop_after;
    MemoryBudget device("device", options.device_memory_bytes);
    StopSignal signals;
    {
      auto trainer = Trainer::Create(options, model_, storage->get(), &compute, &device);
      if (!trainer.ok()) return trainer.status();
      CountingWeights weights;
      if (auto status = (*trainer)->Start(&weights); !status.ok()) return status;
      auto run = (*trainer)->Run();
      if (!run.ok()) return run.status();
      *result = *run;
    }
    auto run = InspectRun(options.output);
    if (!run.ok()) return run.status();
    return (*run)["digests"];
  }

  std::string folder_;
  ModelDescription model_;
};

TEST_F(TrainerTest, PlacementEngineUpdateAndResumeNeverChangeTheBits) {
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (double clip : {0.0, 1.0}) {
      SCOPED_TRACE(testing::Message() << std::string(DTypeName(dtype)) << " clip " << clip);
      std::vector<std::pair<std::string, std::function<void(TrainOptions&)>>> variants = {
          {"memory", [](TrainOptions&) {}},
          {"nvme",
           [&](TrainOptions& o) {
             o.swap_paths = {folder_ + "/a"};
             o.offload_param = o.offload_optimizer = Offload::kNvme;
           }},
          {"three",
           [&](TrainOptions& o) {
             o.swap_paths = {folder_ + "/a", folder_ + "/b", folder_ + "/c"};
             o.offload_optimizer = Offload::kNvme;
             o.io.kind = IoEngineOptions::Kind::kThreads;
             o.update_threads = 3;
           }},
          {"deferred", [](TrainOptions& o) { o.update = UpdateChoice::kDeferred; }},
          {"commits",
           [&](TrainOptions& o) {
             o.swap_paths = {folder_ + "/b"};
             o.commit_every = 5;
           }},
      };
      nlohmann::json expected;
      for (auto& [name, change] : variants) {
        TrainOptions options =
            Options(absl::StrCat(name, static_cast<int>(dtype), static_cast<int>(clip)));
        options.dtype = dtype;
        options.clip = clip;
        change(options);
        TrainResult result;
        auto digests = Train(options, &result);
        ASSERT_TRUE(digests.ok()) << name << ": " << digests.status();
        EXPECT_EQ(result.end, TrainResult::End::kFinished);
        EXPECT_LT(*result.last_loss, *result.first_loss);
        if (expected.is_null()) expected = *digests;
        EXPECT_EQ(*digests, expected) << name;
        if (name == "memory") {
          EXPECT_EQ(result.nvme_read_bytes, 0u);
        } else if (name == "nvme") {
          EXPECT_GT(result.nvme_read_bytes, 0u);
        } else if (name == "three") {
          EXPECT_EQ(result.io_engine, "threads");
        }
      }
      // Stopped half-way by a signal, then resumed elsewhere.
      TrainOptions options =
          Options(absl::StrCat("stopped", static_cast<int>(dtype), static_cast<int>(clip)));
      options.dtype = dtype;
      options.clip = clip;
      options.swap_paths = {folder_ + "/c"};
      TrainResult result;
      ASSERT_TRUE(Train(options, &result, /*stop_after=*/4).ok());
      EXPECT_EQ(result.end, TrainResult::End::kStopped);
      EXPECT_EQ(result.step, 4);
      options.resume = true;
      options.swap_paths = {folder_ + "/a", folder_ + "/b"};
      auto digests = Train(options, &result);
      ASSERT_TRUE(digests.ok()) << digests.status();
      EXPECT_EQ(*digests, expected);
    }
  }
}

TEST_F(TrainerTest, AnotherLearningRateGivesOtherDigests) {
  TrainOptions options = Options("one");
  TrainResult result;
  const auto one = Train(options, &result);
  options = Options("two");
  options.optimizer.learning_rate = 0.0100001;
  const auto two = Train(options, &result);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(*one, *two);
}

TEST_F(TrainerTest, ResumeWithAnotherLearningRateNamesIt) {
  TrainOptions options = Options("run");
  options.steps = 3;
  TrainResult result;
  ASSERT_TRUE(Train(options, &result).ok());
  options.steps = 5;
  EXPECT_EQ(Train(options, &result).status().code(), absl::StatusCode::kAlreadyExists);
  options.resume = true;
  options.optimizer.learning_rate = 0.5;
  const auto status = Train(options, &result).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("lr was"));
}

TEST_F(TrainerTest, ABudgetTooSmallIsRefusedWithTheSmallestThatWorks) {
  TrainOptions options = Options("small");
  options.swap_paths = {folder_ + "/a"};
  options.host_memory_bytes = 1 << 20;
  TrainResult result;
  const auto status = Train(options, &result).status();
  EXPECT_EQ(ExitCodeOf(status), 3) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--host-memory"));
}

TEST_F(TrainerTest, MetricsHoldEachStepOnce) {
  TrainOptions options = Options("run");
  options.swap_paths = {folder_ + "/a"};
  options.commit_every = 2;
  TrainResult result;
  ASSERT_TRUE(Train(options, &result, /*stop_after=*/5).ok());
  options.resume = true;
  ASSERT_TRUE(Train(options, &result).ok());
  std::ifstream rows(options.output + "/metrics.jsonl");
  std::string line;
  int64_t step = 0;
  while (std::getline(rows, line)) EXPECT_EQ(nlohmann::json::parse(line)["step"], ++step);
  EXPECT_EQ(step, options.steps);
}

}  // namespace
}  // namespace spillway
