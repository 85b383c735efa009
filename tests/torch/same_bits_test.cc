// The promise "exact": where state lives, who moves it and who updates it never
// changes a bit. Every variant is compared with a plain run, and shows by what it
// moved, and where its extents lie, that it was the variant it claims to be.
#include "tests/torch/same_bits.h"

#include <atomic>
#include <iostream>
#include <set>

#include "engine/torch/init_source.h"
#include "io/create_io_engine.h"

namespace spillway {
namespace {

// --- The update of the embedding, and the forward that does not wait for all of it.

// Of its 1,000 tokens the data has 96: two tiles of sixteen.
class SameBitsLargeVocabulary : public SameBits {
 protected:
  SameBitsLargeVocabulary() : SameBits(SmallConfig(0.1, 1000)) {}
};

TEST_F(SameBitsLargeVocabulary, AStepThatBeginsWithSomeRowsOfTheEmbedding) {
  for (const double clip : {0.0, 1.0}) {
    const RunOutcome plain = Run(InMemory(DType::kBFloat16, clip));
    TrainOptions nvme = Nvme(DType::kBFloat16, clip);
    ExpectSameBits(plain, Run(nvme), "NVMe");
    SetSmallestBudgets(nvme);
    nvme.output.clear();
    ExpectSameBits(plain, Run(nvme), "NVMe, smallest budgets");
    TrainOptions weights_in_memory = Nvme(DType::kBFloat16, clip);
    weights_in_memory.offload_param = Offload::kCpu;
    ExpectSameBits(plain, Run(weights_in_memory), "weights in host memory");
  }
}

// --- Placements.

class SameBitsPlacement : public SameBits {
 protected:
  struct Expected {
    Tier weights, optimizer;                              // where each kind of state is, whole
    double read_from, read_to, written_from, written_to;  // bytes per parameter and step
  };

  RunOutcome Check(const RunOutcome& plain, const TrainOptions& options, const std::string& what,
                   const Expected& expected) {
    const RunOutcome outcome = CheckTraffic(plain, options, what, expected);
    SCOPED_TRACE(what);
    ExpectWhole(outcome.result.residency.weights, expected.weights);
    ExpectWhole(outcome.result.residency.optimizer, expected.optimizer);
    return outcome;
  }

  RunOutcome CheckTraffic(const RunOutcome& plain, const TrainOptions& options,
                          const std::string& what, const Expected& expected) {
    const RunOutcome outcome = Run(options);
    ExpectSameBits(plain, outcome, what);
    SCOPED_TRACE(what);
    const int64_t parameters = config_.shape.model.parameter_count();
    const double read = MovedPerParameter(outcome, "nvme_read", parameters);
    const double written = MovedPerParameter(outcome, "nvme_written", parameters);
    EXPECT_GE(read, expected.read_from);
    EXPECT_LE(read, expected.read_to);
    EXPECT_GE(written, expected.written_from);
    EXPECT_LE(written, expected.written_to);
    return outcome;
  }

  static void ExpectWhole(const uint64_t (&bytes_by_tier)[3], Tier tier) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(bytes_by_tier[i] > 0, i == static_cast<int>(tier)) << i;
  }

  // `weight` bytes a parameter of the compute weight, `rest` of the other planes. The
  // padding of this small model adds up to a tenth; the first step of a deferred run
  // updates nothing, and its first forward is not filled by an update. A skipped step of
  // an fp16 run neither reads nor writes its state.
  void CheckAll(DType dtype, double clip, double weight, double rest) {
    constexpr Tier kDevice = Tier::kDevice, kHost = Tier::kHost, kNvme = Tier::kNvme;
    const RunOutcome plain = Run(InMemory(dtype, clip));
    EXPECT_EQ(plain.result.nvme_read_bytes, 0u);
    EXPECT_EQ(plain.result.nvme_written_bytes, 0u);
    ExpectWhole(plain.result.residency.weights, kDevice);
    ExpectWhole(plain.result.residency.optimizer, kDevice);
    ExpectUpdate(plain, clip > 0 || dtype == DType::kFloat16 ? "deferred" : "immediate");
    // It learns, and the masks of dropout differ from step to step.
    EXPECT_LT(plain.rows.back()["loss"], plain.rows.front()["loss"].get<double>() - 0.05);
    int skipped = 0;
    for (const auto& row : plain.rows) skipped += row["skipped"].get<bool>();
    if (dtype == DType::kFloat16) {
      EXPECT_GE(skipped, 1);
      EXPECT_LE(skipped, kSteps / 2);
    } else {
      EXPECT_EQ(skipped, 0);
    }
    const double all = weight + rest;
    const double taken = 1 - skipped / double{kSteps};  // of the steps

    TrainOptions cpu = InMemory(dtype, clip);
    cpu.offload_param = cpu.offload_optimizer = Offload::kCpu;
    Check(plain, cpu, "in host memory", {kHost, kHost, 0, 0, 0, 0});

    TrainOptions automatic = InMemory(dtype, clip);
    automatic.offload_param = automatic.offload_optimizer = Offload::kAuto;
    Check(plain, automatic, "without a swap path", {kHost, kHost, 0, 0, 0, 0});

    const TrainOptions nvme = Nvme(dtype, clip);
    const Expected everything = {
        kNvme,    kNvme, 0.94 * all * taken + 0.5, 1.2 * (all + 2 * weight), 0.9 * all * taken,
        1.2 * all};
    const RunOutcome loose = Check(plain, nvme, "NVMe", everything);

    TrainOptions tight = nvme;
    SetSmallestBudgets(tight);
    tight.output.clear();
    Expected most = everything;
    most.read_from = 0.94 * all * taken + 0.8 * weight;
    most.read_to += 4.8;  // gradients spill
    most.written_to += 4.8;
    const RunOutcome smallest = Check(plain, tight, "NVMe, smallest budgets", most);
    EXPECT_LT(smallest.result.host_arena_bytes, loose.result.host_arena_bytes);
    EXPECT_LT(smallest.result.lookahead, loose.result.lookahead);

    TrainOptions one_slot = nvme;
    one_slot.no_commit = true;
    Check(plain, one_slot, "NVMe, one slot", everything);

    // Mixed placements move what is on NVMe and no more.
    TrainOptions weights_on_nvme = nvme;
    weights_on_nvme.offload_optimizer = Offload::kCpu;
    Check(plain, weights_on_nvme, "weights on NVMe, optimizer in host memory",
          {kNvme, kHost, 0.9 * weight * taken, 3.6 * weight, 0.9 * weight * taken, 1.2 * weight});
    const Expected only_optimizer = {
        kHost, kNvme, 0.9 * rest * taken, 1.2 * rest, 0.9 * rest * taken, 1.2 * rest};
    TrainOptions optimizer_on_nvme = nvme;
    optimizer_on_nvme.offload_param = Offload::kCpu;
    Check(plain, optimizer_on_nvme, "weights in host memory, optimizer on NVMe", only_optimizer);
    TrainOptions device_and_nvme = nvme;
    device_and_nvme.offload_param = Offload::kNone;
    Expected device_weights = only_optimizer;
    device_weights.weights = kDevice;
    Check(plain, device_and_nvme, "weights in device memory, optimizer on NVMe", device_weights);

    // A budget that is left over becomes a cache: nothing, or less, is moved.
    TrainOptions cached = nvme;
    cached.offload_param = cached.offload_optimizer = Offload::kAuto;
    Check(plain, cached, "cached whole", {kHost, kHost, 0, 0, 0, 0});
    // How much more than the least leaves a part on NVMe depends on what computing takes here.
    TrainOptions half = tight;
    half.offload_param = half.offload_optimizer = Offload::kAuto;
    Tighten(half);
    const uint64_t least = half.host_memory_bytes;
    const uint64_t state = loose.result.residency.optimizer[static_cast<int>(kNvme)];
    uint64_t cached_bytes = 0, left_bytes = 0;
    for (const int eighths : {4, 5, 6, 3, 7, 2, 8, 1}) {
      half.host_memory_bytes = least + state / 8 * eighths;
      const RunOutcome partly = CheckTraffic(plain, half, "cached in part",
                                             {kNvme, kNvme, 0, most.read_to, 0, most.written_to});
      cached_bytes = partly.result.residency.optimizer[static_cast<int>(kHost)];
      left_bytes = partly.result.residency.optimizer[static_cast<int>(kNvme)];
      if (cached_bytes == 0 || left_bytes == 0) continue;
      EXPECT_LT(partly.result.nvme_read_bytes, smallest.result.nvme_read_bytes);
      EXPECT_LT(partly.result.nvme_written_bytes, smallest.result.nvme_written_bytes);
      break;
    }
    EXPECT_GT(cached_bytes, 0u);
    EXPECT_GT(left_bytes, 0u);
  }
};

class SameBitsPlacementMoreFormats : public SameBitsPlacement {};

TEST_F(SameBitsPlacement, Bf16) { CheckAll(DType::kBFloat16, 0, 2, 10); }
TEST_F(SameBitsPlacementMoreFormats, Fp32) { CheckAll(DType::kFloat32, 0, 4, 8); }
TEST_F(SameBitsPlacementMoreFormats, Bf16ClippedMultipliedInFp32) {
  compute_ = DType::kFloat32;
  CheckAll(DType::kBFloat16, 0.5, 2, 10);
  const RunOutcome in_fp32 = Run(InMemory(DType::kBFloat16, 0.5));
  compute_ = DType::kBFloat16;
  EXPECT_NE(Run(InMemory(DType::kBFloat16, 0.5)).digests, in_fp32.digests);
}
TEST_F(SameBitsPlacement, Fp16) { CheckAll(DType::kFloat16, 0, 2, 12); }
// Residual 2, codes 1 and 1, and two planes of scales that are a block in tiles so small.
TEST_F(SameBitsPlacementMoreFormats, Bf16WithMomentsOf8Bits) {
  const RunOutcome full = Run(InMemory(DType::kBFloat16));
  moments_ = MomentFormat::kEightBit;
  CheckAll(DType::kBFloat16, 0, 2, 6);
  const RunOutcome coded = Run(InMemory(DType::kBFloat16));
  EXPECT_NE(coded.digests, full.digests);
  EXPECT_NEAR(coded.rows.back()["loss"], full.rows.back()["loss"].get<double>(), 0.01);
}

TEST_F(SameBitsPlacement, Bf16WithMomentsAndProductsInFp8) {
  const RunOutcome full = Run(InMemory(DType::kBFloat16));
  moments_ = MomentFormat::kFloat8;
  const RunOutcome coded = Run(InMemory(DType::kBFloat16));
  EXPECT_NE(coded.digests, full.digests);
  EXPECT_NEAR(coded.rows.back()["loss"], full.rows.back()["loss"].get<double>(), 0.01);
  layers_in_fp8_ = true;
  const RunOutcome both = Run(InMemory(DType::kBFloat16));
  EXPECT_NE(both.digests, coded.digests);
  EXPECT_NEAR(both.rows.back()["loss"], full.rows.back()["loss"].get<double>(), 0.03);
  CheckAll(DType::kBFloat16, 0, 2, 7);
}

TEST_F(SameBitsPlacementMoreFormats, Bf16WithoutMastersAndMomentsInBf16) {
  const RunOutcome full = Run(InMemory(DType::kBFloat16));
  moments_ = MomentFormat::kBFloat16;
  masters_ = OptimizerSpec::Masters::kNone;
  CheckAll(DType::kBFloat16, 0, 2, 4);
  const RunOutcome narrow = Run(InMemory(DType::kBFloat16));
  EXPECT_NE(narrow.digests, full.digests);
  EXPECT_NEAR(narrow.rows.back()["loss"], full.rows.back()["loss"].get<double>(), 0.03);
}

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
    } else {
      std::cout << "[  SKIPPED ] SameBitsWorkers.io_uring: it is refused here\n";
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

      // Some wait for the next forward, and their gradients meanwhile in host memory.
      const int kHost = static_cast<int>(Tier::kHost);
      TrainOptions some = Nvme(dtype, clip);
      some.deferred_share = 0;
      EXPECT_EQ(Run(some).result.residency.gradients[kHost], 0u);
      some.output.clear();
      some.deferred_share = 0.5;
      const RunOutcome mixed = Run(some);
      ExpectSameBits(plain, mixed, "half of the updates deferred");
      ExpectUpdate(mixed, "immediate");
      EXPECT_GT(mixed.result.residency.gradients[kHost], 0u);
      some.output.clear();
      some.commit_every = 2;
      ExpectSameBits(plain, Run(some), "half of the updates deferred, with commits");
    }
  }
};

class SameBitsWorkersMoreFormats : public SameBitsWorkers {};

TEST_F(SameBitsWorkers, Bf16) { CheckAll(DType::kBFloat16, 0); }
TEST_F(SameBitsWorkersMoreFormats, Fp32) { CheckAll(DType::kFloat32, 0); }
TEST_F(SameBitsWorkers, Fp16) { CheckAll(DType::kFloat16, 0); }
TEST_F(SameBitsWorkersMoreFormats, Fp32Clipped) { CheckAll(DType::kFloat32, 0.5); }
TEST_F(SameBitsWorkersMoreFormats, Bf16WithoutMastersClipped) {
  masters_ = OptimizerSpec::Masters::kNone;
  CheckAll(DType::kBFloat16, 0.5);
}
TEST_F(SameBitsWorkers, Bf16WithMastersOf24BitsAndMomentsOf8) {
  moments_ = MomentFormat::kEightBit;
  masters_ = OptimizerSpec::Masters::k24Bit;
  CheckAll(DType::kBFloat16, 0);
}

TEST_F(SameBits, TwoComputeThreadsAreTheSameInEveryPlacement) {
  TrainOptions memory = InMemory(DType::kBFloat16);
  memory.threads = 2;
  TrainOptions nvme = Nvme(DType::kBFloat16);
  nvme.threads = 2;
  const RunOutcome plain = Run(memory);
  ExpectSameBits(plain, Run(nvme), "two threads");
  nvme.offload_activations = Offload::kNvme;
  nvme.recompute = Recompute::kAll;
  ExpectSameBits(plain, Run(nvme), "two threads, activations spilled");
  memory.offload_param = memory.offload_optimizer = memory.offload_activations = Offload::kCpu;
  ExpectSameBits(plain, Run(memory), "two threads, in the host's memory");
}

// --- The comparison itself, and dropout.

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
  const RunOutcome none = run(*BuildTransformer(SmallConfig(0).transformer), 1, 2);
  for (const auto& row : none.rows) {
    EXPECT_NEAR(row["loss"].get<double>(), *evaluated.begin(), 1e-6);
  }
}

}  // namespace
}  // namespace spillway
