// Whether a unit's inputs stay on the device between its forward and its backward, go to the
// host's memory or to storage changes no bit: with dropout, several micro-batches, and tensors
// whose memory is not in the order of their sizes.
#include "tests/torch/same_bits.h"

namespace spillway {
namespace {

class SameBitsActivations : public SameBits {
 protected:
  static TrainOptions Moved(TrainOptions options, Offload to) {
    options.offload_activations = to;
    return options;
  }

  void CheckAll(DType dtype, double clip) {
    const RunOutcome plain = Run(InMemory(dtype, clip));
    ExpectSameBits(plain, Run(Moved(InMemory(dtype, clip), Offload::kCpu)), "in memory, host");
    const RunOutcome kept = Run(Moved(Nvme(dtype, clip), Offload::kNone));
    ExpectSameBits(plain, kept, "NVMe, device");
    const RunOutcome spilled = Run(Moved(Nvme(dtype, clip), Offload::kNvme));
    ExpectSameBits(plain, spilled, "NVMe, spilled");
    EXPECT_EQ(spilled.result.kept_graphs, 1);  // the embedding's, which has no inputs
    EXPECT_LT(spilled.result.peak_device_bytes, kept.result.peak_device_bytes);

    // Three blocks' inputs: 2 x 2 samples of 32 positions, 64 wide.
    const uint64_t bytes = 3 * (2 * 2 * 32 * 64) * DTypeBytes(dtype);
    EXPECT_EQ(spilled.result.nvme_written_bytes - kept.result.nvme_written_bytes, kSteps * bytes);
  }
};

TEST_F(SameBitsActivations, Bf16) { CheckAll(DType::kBFloat16, 0); }
TEST_F(SameBitsActivations, Fp32Clipped) { CheckAll(DType::kFloat32, 0.5); }
TEST_F(SameBitsActivations, Fp16) { CheckAll(DType::kFloat16, 0); }

// Down to the smallest budget: all, some and none of the inputs stay on the device.
TEST_F(SameBitsActivations, AsFarAsTheDevicesMemoryNeedsIt) {
  TrainOptions tight = Nvme(DType::kFloat32);
  tight.accumulate = 8;
  tight.recompute = Recompute::kAll;
  tight.host_memory_bytes = 3 * kMiB;
  TrainOptions memory = tight;
  memory.offload_activations = Offload::kNone;
  memory.device_memory_bytes = 64 * kMiB;
  const RunOutcome plain = Run(memory);
  uint64_t most = 0, least = 0;
  bool refused = false;
  for (uint64_t device = 6 * kMiB; !refused; device -= 192 << 10) {
    tight.device_memory_bytes = device;
    try {
      const RunOutcome run = Run(tight);
      ExpectSameBits(plain, run, absl::StrCat(device, " bytes of device memory"));
      EXPECT_LE(run.result.peak_device_bytes, device);
      least = run.result.peak_device_bytes;
      most = std::max(most, least);
    } catch (const c10::Error& error) {
      refused = std::string(error.what()).find("does not fit --device-memory") != std::string::npos;
      ASSERT_TRUE(refused) << error.what();
    }
  }
  EXPECT_GE(most - least, 3 * (8 * 2 * 32 * 64) * sizeof(float));  // of three blocks
}

TEST_F(SameBitsActivations, EvaluationHasTheSameLossHoweverManySamplesItTakesAtOnce) {
  const auto run = [&](TrainOptions options) {
    options.output = Path(absl::StrCat("run", ++runs_));
    options.eval_every = 5;
    MadeTokens data(50, kSeqLen, kVocabulary), evaluation(37, kSeqLen, kVocabulary);
    return TrainToTheEnd(model_, data, &evaluation, nullptr, options);
  };
  const RunOutcome plain = run(InMemory(DType::kFloat32));
  const RunOutcome spilled = run(Moved(Nvme(DType::kFloat32), Offload::kNvme));
  ExpectSameBits(plain, spilled, "evaluated");
  ASSERT_EQ(plain.evaluations.size(), spilled.evaluations.size());
  for (size_t i = 0; i < plain.evaluations.size(); ++i) {
    EXPECT_EQ(plain.evaluations[i]["loss"], spilled.evaluations[i]["loss"]);
    EXPECT_EQ(plain.evaluations[i]["tokens"], spilled.evaluations[i]["tokens"]);
  }
}

// Hands on a tensor whose memory is in another order, or has gaps.
class Turning : public Unit {
 public:
  explicit Turning(int number) : number_(number) {}
  std::string name() const override { return absl::StrCat("turn.", number_); }
  std::vector<ParameterSpec> parameters() const override {
    return {{absl::StrCat("w", number_), {48, 48}, Init::Normal(0, 0.2)}};
  }
  torch::Tensor Forward(const UnitContext&, const std::vector<torch::Tensor>& p,
                        const torch::Tensor& x) const override {
    const torch::Tensor in = number_ == 0 ? torch::one_hot(x, 48).to(p[0].dtype()) : x;
    // [samples, positions, 48]
    const torch::Tensor y = torch::matmul(in, p[0]).tanh();
    if (number_ == 1) return y.permute({2, 1, 0}).contiguous().permute({2, 1, 0});
    if (number_ == 2) return torch::cat({y, y}, 2).narrow(2, 24, 48);
    return y;
  }

 private:
  const int number_;
};

class Sum : public LossUnit {
 public:
  std::string name() const override { return "sum"; }
  std::vector<ParameterSpec> parameters() const override { return {}; }
  torch::Tensor LossSum(const UnitContext&, const std::vector<torch::Tensor>&,
                        const torch::Tensor& x, const torch::Tensor& labels) const override {
    return torch::nll_loss_nd(x.to(torch::kFloat).log_softmax(1), labels.remainder(48), {},
                              at::Reduction::Sum);
  }
};

TEST_F(SameBitsActivations, TensorsInAnotherOrderOrWithGaps) {
  Model model;
  for (int i = 0; i < 4; ++i) model.units.push_back(std::make_shared<Turning>(i));
  model.loss = std::make_shared<Sum>();
  const auto run = [&](TrainOptions options) {
    options.output = Path(absl::StrCat("run", ++runs_));
    MadeTokens data(50, kSeqLen, 48);
    return TrainToTheEnd(model, data, nullptr, nullptr, options);
  };
  const RunOutcome plain = run(InMemory(DType::kFloat32));
  EXPECT_LT(plain.rows.back()["loss"], 3.7);  // it learns: ln 48 is 3.87
  TrainOptions recomputed = InMemory(DType::kFloat32);
  recomputed.recompute = Recompute::kAll;
  ExpectSameBits(plain, run(recomputed), "recomputed");
  ExpectSameBits(plain, run(Moved(Nvme(DType::kFloat32), Offload::kCpu)), "host");
  ExpectSameBits(plain, run(Moved(Nvme(DType::kFloat32), Offload::kNvme)), "spilled");
}

}  // namespace
}  // namespace spillway
