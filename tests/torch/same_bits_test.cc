// The promise "exact": where state lives, who moves it and who updates it never
// changes a bit. Every variant is compared with a plain run, and shows by what it
// moved, and where its extents lie, that it was the variant it claims to be.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <filesystem>
#include <set>

#include "engine/memory_limits.h"
#include "engine/simd_dispatch.h"
#include "engine/size.h"
#include "engine/torch/init_source.h"
#include "tests/torch/training_run.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 20;
constexpr int64_t kSeqLen = 32;
constexpr int64_t kVocabulary = 96;
constexpr uint64_t kMiB = uint64_t{1} << 20;

Gpt2Config SmallConfig(double dropout = 0.1) {
  Gpt2Config config;
  config.vocab_size = kVocabulary;
  config.n_positions = kSeqLen;
  config.n_embd = 64;
  config.n_layer = 3;
  config.n_head = 4;
  config.n_inner = 4 * 64;
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = dropout;
  return config;
}

// The initial weights, but for the lowest bit of one gain. (Gains stay near 1; a bit of a
// small weight that grows is rounded away.)
class OneBitOff : public WeightSource {
 public:
  OneBitOff(const Model& model, uint64_t seed) : init_(model, seed) {}
  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override {
    const absl::Status status = init_.Read(name, first, count, out);
    if (name == "transformer.h.1.ln_1.weight" && first <= kElement && kElement < first + count) {
      float& value = out[kElement - first];
      value = FloatOfBits(BitsOf(value) ^ 1);
      ++flipped;
    }
    return status;
  }

  std::atomic<int> flipped = 0;

 private:
  static constexpr uint64_t kElement = 17;
  InitSource init_;
};

class SameBits : public testing::Test {
 protected:
  SameBits()
      : dir_(fs::path(testing::TempDir()) /
             absl::StrCat("spillway_bits_",
                          testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(dir_);
    for (const char* name : {"a", "b", "c"}) fs::create_directories(dir_ / name);
  }
  ~SameBits() override {
    ResetSimdTargetForTest();
    fs::remove_all(dir_);
  }

  std::string Path(const std::string& name) const { return (dir_ / name).string(); }

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
    options.clip = clip;
    options.optimizer.learning_rate = 3e-3;
    options.schedule.kind = ScheduleSpec::Kind::kLinear;
    options.schedule.warmup_steps = 5;
    return options;
  }

  TrainOptions InMemory(DType dtype, double clip = 0) const {
    TrainOptions options = Nvme(dtype, clip);
    options.swap_paths.clear();
    options.offload_param = options.offload_optimizer = Offload::kNone;
    options.no_commit = true;
    return options;
  }

  RunOutcome Run(TrainOptions options, WeightSource* weights = nullptr) {
    if (options.output.empty()) options.output = Path(absl::StrCat("run", ++runs_));
    MadeTokens data(50, kSeqLen, kVocabulary);
    RunOutcome outcome = TrainToTheEnd(model_, data, nullptr, weights, options);
    EXPECT_EQ(outcome.result.end, TrainResult::End::kFinished);
    return outcome;
  }

  // The smallest budgets, as the refusal names them.
  void SetSmallestBudgets(TrainOptions& options) {
    options.host_memory_bytes = 1;
    options.device_memory_bytes = kMiB;
    options.output = Path(absl::StrCat("run", ++runs_));
    MadeTokens data(50, kSeqLen, kVocabulary);
    const auto refused = Train(model_, data, nullptr, nullptr, options);
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

  const Gpt2Config config_ = SmallConfig();
  const Model model_ = *BuildGpt2(config_);
  const fs::path dir_;
  int runs_ = 0;
};

// In the order of the steps, as the bits of metrics.jsonl say.
std::vector<double> Column(const RunOutcome& outcome, const char* name) {
  std::vector<double> values;
  for (const auto& row : outcome.rows) {
    values.push_back(row[name].is_null() ? -1 : row[name].get<double>());
  }
  return values;
}

void ExpectSameBits(const RunOutcome& plain, const RunOutcome& other, const std::string& what) {
  SCOPED_TRACE(what);
  ASSERT_EQ(other.rows.size(), size_t{kSteps});
  for (int i = 0; i < kSteps; ++i) EXPECT_EQ(other.rows[i]["step"], i + 1);
  EXPECT_EQ(Column(plain, "loss"), Column(other, "loss"));
  EXPECT_EQ(Column(plain, "lr"), Column(other, "lr"));
  EXPECT_EQ(Column(plain, "tokens"), Column(other, "tokens"));
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

void ExpectUpdate(const RunOutcome& outcome, const std::string& update) {
  for (const auto& row : outcome.rows) EXPECT_EQ(row["update"], update);
}

// Files by the parent that they lie under.
std::map<std::string, int> ExtentsByParent(const RunOutcome& outcome) {
  std::map<std::string, int> count;
  for (const auto& extent : outcome.inspected["extents"]) {
    const fs::path file = extent["file"].get<std::string>();
    ++count[file.parent_path().parent_path().filename().string()];
  }
  return count;
}

// Bytes moved per parameter and step, without the last step, whose row has the commit.
double MovedPerParameter(const RunOutcome& outcome, const char* which, int64_t parameters) {
  double sum = 0;
  for (int i = 0; i + 1 < kSteps; ++i) sum += outcome.rows[i]["bytes"][which].get<double>();
  return sum / parameters / (kSteps - 1);
}

// --- Placements.

class SameBitsPlacement : public SameBits {
 protected:
  struct Expected {
    double read_from, read_to, written_from, written_to;  // bytes per parameter and step
  };

  void Check(const RunOutcome& plain, const TrainOptions& options, const std::string& what,
             const Expected& expected) {
    const RunOutcome outcome = Run(options);
    ExpectSameBits(plain, outcome, what);
    SCOPED_TRACE(what);
    const int64_t parameters = config_.parameter_count();
    const double read = MovedPerParameter(outcome, "nvme_read", parameters);
    const double written = MovedPerParameter(outcome, "nvme_written", parameters);
    EXPECT_GE(read, expected.read_from);
    EXPECT_LE(read, expected.read_to);
    EXPECT_GE(written, expected.written_from);
    EXPECT_LE(written, expected.written_to);
  }

  // `weight` bytes a parameter of the compute weight, `rest` of the other planes. The
  // padding of this small model adds up to a tenth; the first step of a deferred run
  // updates nothing, and its first forward is not filled by an update.
  void CheckAll(DType dtype, double clip, double weight, double rest) {
    const RunOutcome plain = Run(InMemory(dtype, clip));
    EXPECT_EQ(plain.result.nvme_read_bytes, 0u);
    EXPECT_EQ(plain.result.nvme_written_bytes, 0u);
    ExpectUpdate(plain, clip > 0 || dtype == DType::kFloat16 ? "deferred" : "immediate");
    // It learns, and the masks of dropout differ from step to step.
    EXPECT_LT(plain.rows.back()["loss"], plain.rows.front()["loss"].get<double>() - 0.05);
    const double all = weight + rest;

    TrainOptions cpu = InMemory(dtype, clip);
    cpu.offload_param = cpu.offload_optimizer = Offload::kCpu;
    Check(plain, cpu, "in host memory", {0, 0, 0, 0});

    TrainOptions automatic = InMemory(dtype, clip);
    automatic.offload_param = automatic.offload_optimizer = Offload::kAuto;
    Check(plain, automatic, "without a swap path", {0, 0, 0, 0});

    const TrainOptions nvme = Nvme(dtype, clip);
    Check(plain, nvme, "NVMe", {0.94 * all + 0.5, 1.2 * (all + 2 * weight), 0.9 * all, 1.2 * all});

    TrainOptions tight = nvme;
    SetSmallestBudgets(tight);
    tight.output.clear();
    Check(plain, tight, "NVMe, smallest budgets",
          {0.94 * all + 0.8 * weight, 1.2 * (all + 2 * weight + 4), 0.9 * all, 1.2 * (all + 4)});

    TrainOptions one_slot = nvme;
    one_slot.no_commit = true;
    Check(plain, one_slot, "NVMe, one slot",
          {0.94 * all + 0.5, 1.2 * (all + 2 * weight), 0.9 * all, 1.2 * all});

    // Mixed placements move what is on NVMe and no more.
    TrainOptions weights_on_nvme = nvme;
    weights_on_nvme.offload_optimizer = Offload::kCpu;
    Check(plain, weights_on_nvme, "weights on NVMe, optimizer in host memory",
          {0.9 * weight, 3.6 * weight, 0.9 * weight, 1.2 * weight});
    TrainOptions optimizer_on_nvme = nvme;
    optimizer_on_nvme.offload_param = Offload::kCpu;
    Check(plain, optimizer_on_nvme, "weights in host memory, optimizer on NVMe",
          {0.9 * rest, 1.2 * rest, 0.9 * rest, 1.2 * rest});
    TrainOptions device_and_nvme = nvme;
    device_and_nvme.offload_param = Offload::kNone;
    Check(plain, device_and_nvme, "weights in device memory, optimizer on NVMe",
          {0.9 * rest, 1.2 * rest, 0.9 * rest, 1.2 * rest});

    // A budget that is left over becomes a cache: nothing, or less, is moved.
    TrainOptions cached = nvme;
    cached.offload_param = cached.offload_optimizer = Offload::kAuto;
    Check(plain, cached, "cached whole", {0, 0, 0, 0});
    TrainOptions half = tight;
    half.offload_param = half.offload_optimizer = Offload::kAuto;
    half.host_memory_bytes += (dtype == DType::kFloat16 ? 7 : 5) * kMiB / 4;
    Check(plain, half, "cached in part", {0.1, 0.95 * (all + 2 * weight), 0.1, 0.97 * all});
  }
};

TEST_F(SameBitsPlacement, Bf16) { CheckAll(DType::kBFloat16, 0, 2, 10); }
TEST_F(SameBitsPlacement, Fp32) { CheckAll(DType::kFloat32, 0, 4, 8); }
TEST_F(SameBitsPlacement, Bf16Clipped) { CheckAll(DType::kBFloat16, 0.5, 2, 10); }
TEST_F(SameBitsPlacement, Fp16) { CheckAll(DType::kFloat16, 0, 2, 12); }

// --- Who moves, and who updates.

class SameBitsWorkers : public SameBits {
 protected:
  void CheckAll(DType dtype, double clip) {
    const RunOutcome plain = Run(InMemory(dtype, clip));
    const bool deferred = clip > 0 || dtype == DType::kFloat16;

    TrainOptions threads = Nvme(dtype, clip);
    threads.io.kind = IoEngineOptions::Kind::kThreads;
    const RunOutcome by_threads = Run(threads);
    ExpectSameBits(plain, by_threads, "thread pool");
    EXPECT_EQ(by_threads.result.io_engine, "threads");
    EXPECT_EQ(ExtentsByParent(by_threads).size(), 1u);

    TrainOptions uring = Nvme(dtype, clip);
    uring.io.kind = IoEngineOptions::Kind::kUring;
    // Refused in some containers; the thread pool is then all there is.
    if (CreateIoEngine(uring.io).ok()) {
      const RunOutcome by_uring = Run(uring);
      ExpectSameBits(plain, by_uring, "io_uring");
      EXPECT_EQ(by_uring.result.io_engine, "io_uring");
    }

    TrainOptions paths = Nvme(dtype, clip);
    paths.swap_paths = {Path("a"), Path("b"), Path("c")};
    paths.io.block_bytes = 4096;
    paths.io.depth = 3;
    const RunOutcome three = Run(paths);
    ExpectSameBits(plain, three, "three paths, small blocks");
    const auto extents = ExtentsByParent(three);
    ASSERT_EQ(extents.size(), 3u);
    for (const auto& [parent, count] : extents) {
      EXPECT_GE(count, by_threads.inspected["extents"].size() / 4) << parent;
    }

    for (int workers : {1, 3}) {
      TrainOptions updates = Nvme(dtype, clip);
      updates.update_threads = workers;
      ExpectSameBits(plain, Run(updates), absl::StrCat(workers, " update threads"));
    }

    for (SimdTarget target : {SimdTarget::kBaseline, SimdTarget::kAvx2, SimdTarget::kAvx512}) {
      if (!SimdTargetSupported(target)) continue;
      SetSimdTargetForTest(target);
      EXPECT_EQ(ActiveSimdTarget(), target);
      ExpectSameBits(plain, Run(Nvme(dtype, clip)), std::string(SimdTargetName(target)));
    }
    ResetSimdTargetForTest();

    ExpectUpdate(plain, deferred ? "deferred" : "immediate");
    if (!deferred) {
      // The norm is summed tile by tile, so only a run without one may be cut otherwise.
      TrainOptions tiles = Nvme(dtype, clip);
      tiles.tile_parameters = 2048;
      const RunOutcome small_tiles = Run(tiles);
      ExpectSameBits(plain, small_tiles, "smaller tiles");
      EXPECT_GT(small_tiles.inspected["extents"].size(),
                3 * by_threads.inspected["extents"].size() / 2);
      TrainOptions late = Nvme(dtype, clip);
      late.update = UpdateChoice::kDeferred;
      const RunOutcome updated_late = Run(late);
      ExpectSameBits(plain, updated_late, "deferred");
      ExpectUpdate(updated_late, "deferred");
      late = InMemory(dtype, clip);
      late.update = UpdateChoice::kDeferred;
      ExpectSameBits(plain, Run(late), "deferred, in memory");
    }
  }
};

TEST_F(SameBitsWorkers, Bf16) { CheckAll(DType::kBFloat16, 0); }
TEST_F(SameBitsWorkers, Fp32) { CheckAll(DType::kFloat32, 0); }
TEST_F(SameBitsWorkers, Fp16) { CheckAll(DType::kFloat16, 0); }
TEST_F(SameBitsWorkers, Fp32Clipped) { CheckAll(DType::kFloat32, 0.5); }

TEST_F(SameBits, TwoComputeThreadsAreTheSameInEveryPlacement) {
  TrainOptions memory = InMemory(DType::kBFloat16);
  memory.threads = 2;
  TrainOptions nvme = Nvme(DType::kBFloat16);
  nvme.threads = 2;
  ExpectSameBits(Run(memory), Run(nvme), "two threads");
}

// --- Commits and resume.

class SameBitsResume : public SameBits {
 protected:
  // A signal after `stop_after` steps commits; the run then goes on from there.
  void CheckResume(DType dtype, double clip, const TrainOptions& first,
                   const TrainOptions& second) {
    constexpr int kStopAfter = 9;
    const RunOutcome plain = Run(InMemory(dtype, clip));
    TrainOptions options = first;
    options.output = Path(absl::StrCat("run", ++runs_));
    MadeTokens stopping(50, kSeqLen, kVocabulary);
    // The dry run may read a batch too: the step is checked below.
    stopping.StopAt(kStopAfter * options.accumulate);
    const RunOutcome stopped = TrainToTheEnd(model_, stopping, nullptr, nullptr, options);
    ASSERT_EQ(stopped.result.end, TrainResult::End::kStopped);
    EXPECT_EQ(stopped.result.stop_signal, SIGTERM);
    ASSERT_GE(stopped.result.step, kStopAfter - 1);
    ASSERT_LE(stopped.result.step, kStopAfter + 1);
    EXPECT_EQ(stopped.inspected["step"], stopped.result.step);
    EXPECT_EQ(stopped.inspected["finished"], false);

    TrainOptions resumed = second;
    resumed.output = options.output;
    resumed.resume = true;
    const RunOutcome outcome = Run(resumed);
    ExpectSameBits(plain, outcome, "resumed");
    // It did only what was left.
    EXPECT_EQ(Column(stopped, "loss").size(), stopped.result.step);
    EXPECT_EQ(outcome.result.first_loss, plain.rows[stopped.result.step]["loss"].get<double>());
  }
};

TEST_F(SameBitsResume, Bf16Immediate) {
  CheckResume(DType::kBFloat16, 0, Nvme(DType::kBFloat16), Nvme(DType::kBFloat16));
}
TEST_F(SameBitsResume, Bf16Clipped) {
  CheckResume(DType::kBFloat16, 0.5, Nvme(DType::kBFloat16, 0.5), Nvme(DType::kBFloat16, 0.5));
}
TEST_F(SameBitsResume, Fp16) {
  CheckResume(DType::kFloat16, 0, Nvme(DType::kFloat16), Nvme(DType::kFloat16));
}
TEST_F(SameBitsResume, FromMemoryToOtherSwapPaths) {
  TrainOptions first = InMemory(DType::kFloat32);
  first.no_commit = false;
  first.offload_optimizer = Offload::kCpu;
  TrainOptions second = Nvme(DType::kFloat32);
  second.swap_paths = {Path("b"), Path("c")};
  second.update = UpdateChoice::kDeferred;
  CheckResume(DType::kFloat32, 0, first, second);
}

TEST_F(SameBits, CommitsOnTheWayChangeNothing) {
  for (double clip : {0.0, 0.5}) {
    const RunOutcome plain = Run(InMemory(DType::kBFloat16, clip));
    TrainOptions options = Nvme(DType::kBFloat16, clip);
    options.commit_every = 3;
    const RunOutcome outcome = Run(options);
    ExpectSameBits(plain, outcome, absl::StrCat("clip ", clip));
    int commits = 0;
    for (const auto& row : outcome.rows) commits += row["commit_seconds"] > 0.0;
    EXPECT_GE(commits, 6);
  }
}

// --- The comparison itself, and dropout.

TEST_F(SameBits, OneBitOfOneInitialWeightIsSeen) {
  for (DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    TrainOptions options = Nvme(dtype);
    InitSource same(model_, options.seed);
    const RunOutcome plain = Run(InMemory(dtype));
    const RunOutcome with_source = Run(options, &same);
    ExpectSameBits(plain, with_source, "the same weights, given");
    OneBitOff off(model_, options.seed);
    const RunOutcome other = Run(options, &off);
    ASSERT_GE(off.flipped, 1);
    EXPECT_NE(plain.digests, other.digests);
    EXPECT_NE(plain.digests.dump(), other.digests.dump());
    EXPECT_NE(with_source.inspected["digest"], other.inspected["digest"]);
    EXPECT_FALSE(plain.exported == other.exported);
    // In fp32 the losses see it too; bf16's compute weight may well be the same.
    if (dtype == DType::kFloat32) {
      EXPECT_NE(Column(plain, "loss"), Column(other, "loss"));
    }
  }
}

TEST_F(SameBits, DropoutFollowsTheSeedAndIsOffInEvaluation) {
  const auto run = [&](const Model& model, uint64_t seed, int64_t accumulate) {
    TrainOptions options = Nvme(DType::kFloat32);
    options.output = Path(absl::StrCat("run", ++runs_));
    options.seed = seed;
    options.order = SampleOrder::kSequential;
    options.optimizer.learning_rate = 0;
    options.optimizer.weight_decay = 0;
    options.steps = 4;
    options.eval_every = 1;
    options.micro_batch = 2;
    options.accumulate = accumulate;
    MadeTokens data(4, kSeqLen, kVocabulary), evaluation(4, kSeqLen, kVocabulary);
    InitSource weights(model, 7);  // the same whatever the seed
    return TrainToTheEnd(model, data, &evaluation, &weights, options);
  };
  const RunOutcome first = run(model_, 1, 2), second = run(model_, 2, 2);
  ASSERT_EQ(first.rows.size(), 4u);
  ASSERT_EQ(first.evaluations.size(), 5u);  // before training, and after every step
  // Nothing moves (lr 0) and every step sees the same four samples, so a step's loss
  // differs from another's by its masks alone.
  EXPECT_EQ(first.digests["transformer.wte.weight"]["weight"],
            second.digests["transformer.wte.weight"]["weight"]);
  std::set<double> losses;
  for (const RunOutcome* outcome : {&first, &second}) {
    for (const auto& row : outcome->rows) losses.insert(row["loss"].get<double>());
  }
  EXPECT_EQ(losses.size(), 8u);
  // Evaluation has none: the same number every time, whatever the seed, and that of a
  // model without dropout in training.
  std::set<double> evaluated;
  for (const RunOutcome* outcome : {&first, &second}) {
    for (const auto& row : outcome->evaluations) evaluated.insert(row["loss"].get<double>());
  }
  EXPECT_EQ(evaluated.size(), 1u);
  const RunOutcome none = run(*BuildGpt2(SmallConfig(0)), 1, 2);
  for (const auto& row : none.rows) {
    EXPECT_NEAR(row["loss"].get<double>(), *evaluated.begin(), 1e-6);
  }
}

}  // namespace
}  // namespace spillway
