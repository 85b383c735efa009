// The promise "exact" on a device with memory of its own: where state lives, what is copied when,
// and in which order streams come to it never changes a bit.
#include "engine/numeric/optimizer_state.h"
#include "tests/device/test_device.h"
#include "tests/torch/same_bits.h"

namespace spillway {
namespace {

class SameBitsDevice : public SameBits {
 protected:
  struct Expected {
    bool nvme;            // it reads and writes
    double device, host;  // bytes copied there per parameter and step, at least
  };

  // Another seed, and so another order of everything, each time.
  RunOutcome Check(const RunOutcome& plain, TrainOptions options, const std::string& what,
                   const Expected& expected) {
    options.update_device = UpdateDevice::kCpu;  // the choice goes by the speeds measured now
    TestDevice device({.seed = ++seed_});
    const RunOutcome outcome = Run(options, nullptr, &device);
    ExpectSameBits(plain, outcome, what);
    SCOPED_TRACE(what);
    const int64_t parameters = config_.shape.model.parameter_count();
    EXPECT_EQ(MovedPerParameter(outcome, "nvme_read", parameters) > 0, expected.nvme);
    EXPECT_GE(MovedPerParameter(outcome, "to_device", parameters), expected.device);
    EXPECT_GE(MovedPerParameter(outcome, "to_host", parameters), expected.host);
    // No state lives there, and no graph or sum is copied: weights twice, the embedding's for the
    // head, too, and gradients once.
    EXPECT_LE(MovedPerParameter(outcome, "to_device", parameters), 1.9 * expected.device);
    EXPECT_LE(MovedPerParameter(outcome, "to_host", parameters), 3 * expected.host);
    EXPECT_EQ(outcome.result.residency.weights[0] + outcome.result.residency.optimizer[0], 0u);
    return outcome;
  }

  void CheckAll(DType dtype, double clip, double weight) {
    const RunOutcome plain = Run(InMemory(dtype, clip));

    TrainOptions cpu = InMemory(dtype, clip);
    cpu.offload_param = cpu.offload_optimizer = Offload::kCpu;
    Check(plain, cpu, "in host memory", {false, 1.2 * weight, 0.9 * weight});

    // All of it there, and updated there; also where that is the plan's own choice.
    for (Offload choice : {Offload::kNone, Offload::kAuto}) {
      TrainOptions whole = InMemory(dtype, clip);
      whole.offload_param = whole.offload_optimizer = choice;
      TestDevice device({.seed = ++seed_});
      const RunOutcome outcome = Run(whole, nullptr, &device);
      ExpectSameBits(plain, outcome, "all on the device");
      EXPECT_GT(outcome.result.residency.optimizer[static_cast<int>(Tier::kDevice)], 0u);
      EXPECT_EQ(outcome.result.residency.optimizer[static_cast<int>(Tier::kHost)], 0u);
      EXPECT_EQ(MovedPerParameter(outcome, "to_device", config_.shape.model.parameter_count()), 0);
    }
    const TrainOptions nvme = Nvme(dtype, clip);
    const RunOutcome loose = Check(plain, nvme, "NVMe", {true, 1.2 * weight, 0.9 * weight});

    // What lives elsewhere is updated there, tile by tile.
    for (TrainOptions streamed : {cpu, nvme}) {
      streamed.update_device = UpdateDevice::kGpu;
      streamed.output.clear();
      TestDevice device({.seed = ++seed_});
      const RunOutcome outcome = Run(streamed, nullptr, &device);
      ExpectSameBits(plain, outcome, "updates streamed through the device");
      // The optimizer's planes, both ways, in the steps that were taken.
      double bytes = 0, taken = 0;
      for (const auto& row : plain.rows) taken += row["skipped"].get<bool>() ? 0 : 1.0 / kSteps;
      for (const PlaneSpec& plane : StatePlanes(streamed.optimizer, dtype)) {
        if (plane.plane != Plane::kWeight) bytes += taken * plane.bytes / plane.parameters;
      }
      const int64_t parameters = config_.shape.model.parameter_count();
      EXPECT_GE(MovedPerParameter(outcome, "to_device", parameters), bytes);
      EXPECT_GE(MovedPerParameter(outcome, "to_host", parameters), bytes);
    }

    TrainOptions tight = nvme;
    TestDevice refuser({});
    SetSmallestBudgets(tight, &refuser);
    tight.output.clear();
    const RunOutcome smallest =
        Check(plain, tight, "NVMe, smallest budgets", {true, 1.5 * weight, 0.9 * weight});
    EXPECT_LT(smallest.result.host_arena_bytes, loose.result.host_arena_bytes);
    EXPECT_LT(smallest.result.lookahead, loose.result.lookahead);

    // Where weights and inputs lie is the same whatever an update reads.
    if (dtype != DType::kBFloat16 || moments_ != MomentFormat::kFloat32) return;
    TrainOptions weights = InMemory(dtype, clip);
    weights.offload_optimizer = Offload::kCpu;
    TestDevice device({.seed = ++seed_});
    const RunOutcome outcome = Run(weights, nullptr, &device);
    ExpectSameBits(plain, outcome, "weights on the device");
    EXPECT_EQ(outcome.result.residency.weights[static_cast<int>(Tier::kHost)], 0u);
    EXPECT_GT(outcome.result.residency.optimizer[static_cast<int>(Tier::kHost)], 0u);

    TrainOptions inputs = nvme;
    inputs.offload_activations = Offload::kNvme;
    const RunOutcome spilled =
        Check(plain, inputs, "inputs on NVMe, too", {true, 1.2 * weight, 0.9 * weight});
    EXPECT_GT(spilled.result.residency.activations[static_cast<int>(Tier::kNvme)], 0u);

    TrainOptions optimizer_on_nvme = nvme;
    optimizer_on_nvme.offload_param = Offload::kCpu;
    Check(plain, optimizer_on_nvme, "weights in host memory, optimizer on NVMe",
          {true, 1.2 * weight, 0.9 * weight});
  }

  // The tightest plan, which uses every address again at once, in many orders.
  void CheckSeeds(DType dtype, double clip, int seeds) {
    const RunOutcome plain = Run(InMemory(dtype, clip));
    TrainOptions tight = Nvme(dtype, clip);
    tight.offload_activations = Offload::kNvme;
    TestDevice refuser({});
    SetSmallestBudgets(tight, &refuser);
    for (int seed = 100; seed < 100 + seeds; ++seed) {
      tight.output.clear();
      TestDevice device({.seed = static_cast<uint64_t>(seed)});
      ExpectSameBits(plain, Run(tight, nullptr, &device), absl::StrCat("seed ", seed));
    }
  }

  uint64_t seed_ = 0;
};

class SameBitsDeviceMoreFormats : public SameBitsDevice {};

TEST_F(SameBitsDevice, Bf16) { CheckAll(DType::kBFloat16, 0, 2); }
TEST_F(SameBitsDeviceMoreFormats, Bf16Clipped) { CheckAll(DType::kBFloat16, 0.5, 2); }
TEST_F(SameBitsDevice, Fp16) { CheckAll(DType::kFloat16, 0, 2); }
TEST_F(SameBitsDeviceMoreFormats, Fp32) { CheckAll(DType::kFloat32, 0, 4); }
TEST_F(SameBitsDeviceMoreFormats, Bf16WithMomentsInFp8) {
  moments_ = MomentFormat::kFloat8;
  CheckAll(DType::kBFloat16, 0, 2);
}
TEST_F(SameBitsDevice, Bf16WithoutMastersAndMomentsInBf16) {
  moments_ = MomentFormat::kBFloat16;
  masters_ = OptimizerSpec::Masters::kNone;
  CheckAll(DType::kBFloat16, 0, 2);
}

TEST_F(SameBitsDevice, SeedsBf16) { CheckSeeds(DType::kBFloat16, 0, 5); }
TEST_F(SameBitsDeviceMoreFormats, SeedsBf16Clipped) { CheckSeeds(DType::kBFloat16, 0.5, 5); }

}  // namespace
}  // namespace spillway
