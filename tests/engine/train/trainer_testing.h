// A trainer's run on a model of four units whose arithmetic takes no tensor.
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/stop_signal.h"
#include "engine/inspect/inspect_run.h"
#include "engine/model/model_description.h"
#include "engine/numeric/number_formats.h"
#include "engine/run/metrics_log.h"
#include "engine/run/run_storage.h"
#include "engine/train/trainer.h"
#include "gtest/gtest.h"

namespace spillway {

// The gradient of sum((w - target)^2) / 2 for every parameter, per unit, in bf16 or fp32.
class StubCompute : public StepCompute {
 public:
  StubCompute(const ModelDescription& model, DType dtype) : model_(model), dtype_(dtype) {}

  absl::StatusOr<DryRun> MeasureNeeds() override {
    if (refuse_dry_run == 0) ADD_FAILURE() << "there is no dry run";
    if (refuse_dry_run) return Refusal();
    const size_t units = model_.units.size();
    return DryRun{{1 << 20}, std::vector<double>(units, 1e-4), std::vector<double>(units, 3e-4)};
  }
  absl::Status BeginTrain(int64_t step, double) override {
    step_ = step;
    loss_ = 0;
    if (at_step) at_step(step);
    if (refuse_at && step == refuse_at && refuse_at_op < 0) return Refusal();
    return absl::OkStatus();
  }
  absl::Status BeginEvaluate(int64_t, int64_t) override {
    step_ = 0;
    loss_ = 0;
    ++evaluations_;
    return absl::OkStatus();
  }
  int64_t evaluation_samples() const override { return stop_evaluation > 0 ? 2 : 1; }
  int64_t evaluation_samples_at_once(uint64_t) const override { return 1; }
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
        Add(error * (1.0f + 0.01f * static_cast<float>(step_ % 5)), buffers, i, j);
      }
      if (buffers.gradients.empty()) continue;
      const uint64_t padded =
          (count + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
      const uint64_t bytes_each = buffers.Rounded(i) ? DTypeBytes(dtype_) : sizeof(float);
      std::memset(buffers.gradients[i] + count * bytes_each, 0, (padded - count) * bytes_each);
    }
    if (step_ > 0 && buffers.op->kind == OpKind::kLoss) {
      for (StateBuffer& buffer : this->buffers) {
        for (float& value : buffer.values) value += adds_to_buffers;
      }
    }
    if (op_milliseconds > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(op_milliseconds));
    }
    if (fail_at && step_ == fail_at) return absl::OutOfRangeError("made to fail");
    if (refuse_at && step_ == refuse_at && buffers.index == refuse_at_op) {
      return Refusal();
    }
    if (refuse_evaluation && step_ == 0 && evaluations_ == refuse_evaluation) return Refusal();
    const bool stops = step_ > 0 ? step_ == stop_after : evaluations_ == stop_evaluation;
    if (stops && buffers.op->kind == OpKind::kLoss) raise(SIGTERM);
    return absl::OkStatus();
  }
  std::vector<StateBuffer> Buffers() const override { return buffers; }
  absl::Status SetBuffers(const std::vector<StateBuffer>& given) override {
    buffers = given;
    return absl::OkStatus();
  }
  double loss_sum() const override { return loss_; }
  int64_t label_count() const override { return step_ > 0 && step_ == empty_step ? 0 : 1; }
  uint64_t peak_bytes() const override { return 0; }

  std::function<void(int64_t step)> at_step;
  // 1: memory, of it; 0: there is none.
  std::optional<int> refuse_dry_run;
  int64_t stop_after = 0;
  int64_t fail_at = 0;
  int64_t empty_step = 0;     // has no labels
  int64_t refuse_at = 0;      // memory, at this op of the step
  int refuse_at_op = 0;       // -1: as the step begins
  int refuse_evaluation = 0;  // memory, of this one, from 1
  int stop_evaluation = 0;    // by a signal, in this pass, from 1; then there are two samples
  int op_milliseconds = 0;
  std::vector<StateBuffer> buffers;  // to every value of which a step's loss adds so much:
  float adds_to_buffers = 1;

 private:
  // A term, of the run's dtype, to element j of the sums.
  void Add(float term, const OpBuffers& buffers, size_t i, uint64_t j) const {
    const bool bf16 = dtype_ == DType::kBFloat16;
    if (bf16) term = FloatFromBFloat16(BFloat16FromFloat(term));
    if (bf16 && buffers.Rounded(i)) {
      auto& sum = reinterpret_cast<uint16_t*>(buffers.gradients[i])[j];
      sum = BFloat16FromFloat((buffers.fresh[i] ? 0 : FloatFromBFloat16(sum)) + term);
    } else {
      auto& sum = reinterpret_cast<float*>(buffers.gradients[i])[j];
      sum = (buffers.fresh[i] ? 0 : sum) + term;
    }
  }

  static absl::Status Refusal() {
    return absl::ResourceExhaustedError("1 GiB more is needed; raise --device-memory");
  }

  const ModelDescription& model_;
  const DType dtype_;
  int64_t step_ = 0;
  double loss_ = 0;
  int evaluations_ = 0;
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

// The steps of the rows of OUTPUT/name.
inline std::vector<int64_t> StepsOf(const TrainOptions& options, const std::string& name) {
  std::vector<int64_t> steps;
  const absl::Status read = ReadRows(
      options.output + name,
      [&](const nlohmann::json& row, int64_t) { steps.push_back(row["step"].get<int64_t>()); });
  EXPECT_TRUE(read.ok()) << read;
  return steps;
}

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
                                       int64_t stop_after = 0, int64_t fail_at = 0) {
    auto storage = RunStorage::Open(options, nullptr, *files_);
    if (!storage.ok()) return storage.status();
    StubCompute compute(model_, options.dtype);
    compute.stop_after = stop_after;
    compute.fail_at = fail_at;
    compute.op_milliseconds = op_milliseconds_;
    compute.buffers = buffers_;
    compute.refuse_dry_run = refuse_dry_run_;
    compute.refuse_at = refuse_at_;
    compute.refuse_at_op = refuse_at_op_;
    compute.refuse_evaluation = refuse_evaluation_;
    compute.stop_evaluation = stop_evaluation_;
    compute.at_step = at_step_;
    MemoryBudget device("device", options.device_memory_bytes);
    StopSignal signals;
    {
      auto trainer = Trainer::Create({.options = options,
                                      .model = model_,
                                      .storage = storage->get(),
                                      .compute = &compute,
                                      .device_budget = &device,
                                      .device = separate_,
                                      .guess = guess_,
                                      .copy_patience_seconds = copy_patience_seconds_});
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
  int op_milliseconds_ = 0;
  std::vector<StateBuffer> buffers_;
  std::optional<int> refuse_dry_run_;
  std::optional<ComputeGuess> guess_;
  int64_t refuse_at_ = 0;
  int refuse_at_op_ = 0;
  int refuse_evaluation_ = 0;
  int stop_evaluation_ = 0;
  Device* separate_ = nullptr;  // computes; null: the host does
  FileSystem* files_ = &FileSystem::Real();
  double copy_patience_seconds_ = 60;
  std::function<void(int64_t step)> at_step_ = [](int64_t) {};
};

}  // namespace spillway
