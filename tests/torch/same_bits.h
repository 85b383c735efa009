// Runs of one small model that must all end with the same bits.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/size.h"
#include "engine/machine/memory_limits.h"
#include "engine/numeric/simd_dispatch.h"
#include "io/base/format_bytes.h"
#include "swap/plan/planner.h"
#include "tests/scratch_directory.h"
#include "tests/torch/training_run.h"
#include "tests/transformer_config.h"

namespace spillway {

inline constexpr int64_t kSteps = 8;
inline constexpr int64_t kSeqLen = 32;
inline constexpr int64_t kVocabulary = 96;

inline ModelConfig SmallConfig(double dropout = 0.1, int64_t vocabulary = kVocabulary) {
  return SmallGpt2Config(vocabulary, kSeqLen, 64, 4 * 64, 3, 4, Dropouts(dropout));
}

// Each format of state passes one suite with every change: bf16, fp16, and of moments and masters
// what is narrower. The full product of formats and suites are the classes named ...MoreFormats,
// which tools/test all runs.
class SameBits : public testing::Test {
 protected:
  explicit SameBits(ModelConfig config = SmallConfig()) : config_(std::move(config)) {
    for (const char* name : {"a", "b", "c"}) std::filesystem::create_directories(dir_ / name);
  }
  ~SameBits() override { ResetSimdTargetForTest(); }

  std::string Path(const std::string& name) const { return dir_ / name; }

  virtual std::unique_ptr<Dataset> NewData() const {
    return std::make_unique<MadeTokens>(50, kSeqLen, kVocabulary);
  }

  // Everything on NVMe, with room.
  TrainOptions Nvme(DType dtype, double clip = 0) const {
    TrainOptions options;
    options.swap_paths = {Path("a")};
    options.offload_param = options.offload_optimizer = Offload::kNvme;
    options.device_memory_bytes = options.host_memory_bytes = 64 * kMiB;
    options.tile_parameters = 4096;
    options.threads = 1;
    options.update_threads = 2;
    options.steps = kSteps;
    options.micro_batch = 2;
    options.accumulate = 2;
    options.dtype = dtype;
    options.compute = compute_;
    options.layers_in_fp8 = layers_in_fp8_;
    options.optimizer.moments = moments_;
    options.optimizer.masters = masters_;
    options.clip = clip;
    options.optimizer.learning_rate = 3e-3;
    options.schedule.kind = ScheduleSpec::Kind::kLinear;
    options.schedule.warmup_steps = 3;
    // High enough that the first steps of an fp16 run overflow.
    options.loss_scale.initial_scale_power = 18;
    return options;
  }

  TrainOptions InMemory(DType dtype, double clip = 0) const {
    TrainOptions options = Nvme(dtype, clip);
    options.swap_paths.clear();
    options.offload_param = options.offload_optimizer = Offload::kNone;
    options.no_commit = true;
    return options;
  }

  RunOutcome Run(TrainOptions options, WeightSource* weights = nullptr, Device* device = nullptr) {
    if (options.output.empty()) options.output = Path(absl::StrCat("run", ++runs_));
    RunOutcome outcome = TrainToTheEnd(model_, *NewData(), nullptr, weights, options, device);
    EXPECT_EQ(outcome.result.end, TrainResult::End::kFinished);
    return outcome;
  }

  // The smallest budgets, as the refusal names them.
  void SetSmallestBudgets(TrainOptions& options, Device* device = nullptr) {
    options.host_memory_bytes = 1;
    options.device_memory_bytes = kMiB;
    options.output = Path(absl::StrCat("run", ++runs_));
    TrainHooks hooks;
    hooks.device = device;
    const auto refused = Train(model_, *NewData(), nullptr, nullptr, options, hooks);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(ExitCodeOf(refused.status()), 3) << refused.status();
    const std::string message(refused.status().message());
    auto size_after = [&](const std::string& flag) -> uint64_t {
      const size_t needs = message.find("at least");
      const size_t at = message.find(flag, needs);
      if (needs == std::string::npos || at == std::string::npos) return 0;
      std::istringstream words(message.substr(at + flag.size()));
      std::string word;
      words >> word;
      const auto size = ParseSize(word);
      return size.ok() ? *size : 0;
    };
    options.device_memory_bytes = size_after("--device-memory ");
    options.host_memory_bytes = size_after("--host-memory ");
    ASSERT_GT(options.device_memory_bytes, 0u) << message;
    ASSERT_GT(options.host_memory_bytes, 0u) << message;
    ASSERT_LT(options.host_memory_bytes, 64 * kMiB) << message;
  }

  // Takes away what the refusal's numbers, whole MiB, are too many: up to 16 KiB.
  void Tighten(TrainOptions& options) {
    for (uint64_t* bytes : {&options.device_memory_bytes, &options.host_memory_bytes}) {
      for (uint64_t less = kMiB / 2; less >= kMiB / 64; less /= 2) {
        *bytes -= less;
        if (!Fits(options)) *bytes += less;
      }
    }
  }

  // Whether a run would begin.
  bool Fits(TrainOptions options) {
    options.output = Path(absl::StrCat("run", ++runs_));
    TrainHooks hooks;
    hooks.at_start = [](const TrainOptions&) { return absl::AbortedError("it would"); };
    const absl::Status status =
        Train(model_, *NewData(), nullptr, nullptr, options, hooks).status();
    EXPECT_TRUE(absl::IsAborted(status) || ExitCodeOf(status) == 3) << status;
    return absl::IsAborted(status);
  }

  const ModelConfig config_;
  const Model model_ = *BuildTransformer(config_.transformer);
  const ScratchDirectory dir_;
  std::optional<DType> compute_;
  bool layers_in_fp8_ = false;
  MomentFormat moments_ = MomentFormat::kFloat32;
  OptimizerSpec::Masters masters_ = OptimizerSpec::Masters::kExact;
  int runs_ = 0;
};

// In the order of the steps, as the bits of metrics.jsonl say.
inline std::vector<double> Column(const RunOutcome& outcome, const char* name) {
  std::vector<double> values;
  for (const auto& row : outcome.rows) {
    values.push_back(row.contains(name) && !row[name].is_null() ? row[name].get<double>() : -1);
  }
  return values;
}

inline void ExpectSameBits(const RunOutcome& plain, const RunOutcome& other,
                           const std::string& what) {
  SCOPED_TRACE(what);
  ASSERT_EQ(other.rows.size(), size_t{kSteps});
  for (int i = 0; i < kSteps; ++i) EXPECT_EQ(other.rows[i]["step"], i + 1);
  EXPECT_EQ(Column(plain, "loss"), Column(other, "loss"));
  EXPECT_EQ(Column(plain, "lr"), Column(other, "lr"));
  EXPECT_EQ(Column(plain, "tokens"), Column(other, "tokens"));
  EXPECT_EQ(Column(plain, "loss_scale"), Column(other, "loss_scale"));
  for (int i = 0; i < kSteps; ++i) EXPECT_EQ(plain.rows[i]["skipped"], other.rows[i]["skipped"]);
  for (int i = 0; i < kSteps; ++i) {
    if (plain.rows[i]["update"] != other.rows[i]["update"]) continue;
    EXPECT_EQ(plain.rows[i]["grad_norm"], other.rows[i]["grad_norm"]) << "step " << i + 1;
  }
  ASSERT_FALSE(plain.digests.empty());
  EXPECT_EQ(plain.digests, other.digests);
  if (!other.inspected.is_null()) {
    EXPECT_EQ(other.inspected["step"], kSteps);
    EXPECT_EQ(other.inspected["finished"], true);
    EXPECT_EQ(plain.digests, other.inspected["digests"]);  // what was committed
  }
  ASSERT_TRUE(plain.exported.contains("model.safetensors"));
  EXPECT_EQ(plain.exported == other.exported, true) << "the exported files differ";
}

inline void ExpectUpdate(const RunOutcome& outcome, const std::string& update) {
  for (const auto& row : outcome.rows) EXPECT_EQ(row["update"], update);
}

// Files by the parent that they lie under.
inline std::map<std::string, int> ExtentsByParent(const RunOutcome& outcome) {
  std::map<std::string, int> count;
  for (const auto& extent : outcome.inspected["extents"]) {
    const std::filesystem::path file = extent["file"].get<std::string>();
    ++count[file.parent_path().parent_path().filename().string()];
  }
  return count;
}

// Bytes moved per parameter and step. A step's writes may end in the next row; the last row
// has all that are left.
inline double MovedPerParameter(const RunOutcome& outcome, const char* which, int64_t parameters) {
  double sum = 0;
  for (const auto& row : outcome.rows) sum += row["bytes"][which].get<double>();
  return sum / parameters / kSteps;
}

}  // namespace spillway
