// Whether a unit's forward is computed again in its backward, or its graph was kept, changes
// no bit: with dropout, several micro-batches, and weights that come and go.
#include "tests/torch/same_bits.h"

namespace spillway {
namespace {

class SameBitsRecompute : public SameBits {
 protected:
  static constexpr int kLayers = 4;  // of SmallConfig: the embedding and three blocks

  TrainOptions All(TrainOptions options) const {
    options.recompute = Recompute::kAll;
    return options;
  }

  void CheckAll(DType dtype, double clip) {
    const RunOutcome plain = Run(All(InMemory(dtype, clip)));
    EXPECT_EQ(plain.result.kept_graphs, 0);
    const RunOutcome kept = Run(InMemory(dtype, clip));
    EXPECT_EQ(kept.result.kept_graphs, kLayers);
    EXPECT_GT(kept.result.peak_device_bytes, plain.result.peak_device_bytes);
    ExpectSameBits(plain, kept, "in memory, kept");

    // Weights are fetched anew for every backward, to other addresses.
    const RunOutcome nvme = Run(Nvme(dtype, clip));
    EXPECT_EQ(nvme.result.kept_graphs, kLayers);
    EXPECT_GT(nvme.result.nvme_read_bytes, 0u);
    ExpectSameBits(plain, nvme, "NVMe, kept");
    const RunOutcome nvme_all = Run(All(Nvme(dtype, clip)));
    EXPECT_EQ(nvme_all.result.kept_graphs, 0);
    ExpectSameBits(plain, nvme_all, "NVMe, recomputed");

    // Budgets that leave room for some of them, or for hardly any.
    TrainOptions tight = Nvme(dtype, clip);
    SetSmallestBudgets(tight);
    tight.output.clear();
    const uint64_t least = tight.device_memory_bytes;
    const uint64_t one = (kept.result.peak_device_bytes - plain.result.peak_device_bytes) / 3;
    bool some = false;
    for (int i = 0; i <= 8 && !some; ++i) {
      tight.device_memory_bytes = least + i * one / 2;
      const RunOutcome partly = Run(tight);
      // An embedding's graph takes nothing.
      some = partly.result.kept_graphs > 1 && partly.result.kept_graphs < kLayers;
      EXPECT_LE(partly.result.peak_device_bytes, tight.device_memory_bytes);
      ExpectSameBits(plain, partly, absl::StrCat("NVMe, ", partly.result.kept_graphs, " kept"));
    }
    EXPECT_TRUE(some);
  }
};

TEST_F(SameBitsRecompute, Bf16) { CheckAll(DType::kBFloat16, 0); }
TEST_F(SameBitsRecompute, Fp32Clipped) { CheckAll(DType::kFloat32, 0.5); }
TEST_F(SameBitsRecompute, Fp16) { CheckAll(DType::kFloat16, 0); }

TEST_F(SameBitsRecompute, EvaluationBetweenStepsKeepsNoGraph) {
  const auto run = [&](TrainOptions options) {
    options.output = Path(absl::StrCat("run", ++runs_));
    options.eval_every = 5;
    MadeTokens data(50, kSeqLen, kVocabulary), evaluation(12, kSeqLen, kVocabulary);
    return TrainToTheEnd(model_, data, &evaluation, nullptr, options);
  };
  const RunOutcome plain = run(All(InMemory(DType::kBFloat16)));
  const RunOutcome kept = run(InMemory(DType::kBFloat16));
  EXPECT_EQ(kept.result.kept_graphs, kLayers);
  ExpectSameBits(plain, kept, "evaluated");
  ASSERT_EQ(plain.evaluations.size(), kept.evaluations.size());
  for (size_t i = 0; i < plain.evaluations.size(); ++i) {
    EXPECT_EQ(plain.evaluations[i]["loss"], kept.evaluations[i]["loss"]);
  }
}

}  // namespace
}  // namespace spillway
