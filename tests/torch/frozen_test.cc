// Parameters that are not trained: what is trained beside them gets autograd's gradients, they stay
// as they are, in every placement the same bits, and nothing of them is written.
#include <gmock/gmock.h>

#include "engine/torch/describe_model.h"
#include "engine/torch/init_source.h"
#include "engine/weights/safetensors.h"
#include "tests/torch/in_memory_model.h"
#include "tests/torch/same_bits.h"

namespace spillway {
namespace {

using testing::HasSubstr;

// Units that are frozen whole, in part, and not at all; a backward that ends early; and a head that
// borrows what is frozen, and what is not.
const FreezeRule kFreezeRules[] = {
    {"", "^transformer\\.(h\\.2|ln_f)\\."},
    {"mlp|wpe", ""},
    {"h\\.1\\.", "bias$"},
    {"", "ln_f"},
    {"wte", ""},
};

class Frozen : public SameBits {
 protected:
  static TrainOptions With(TrainOptions options, const FreezeRule& rule) {
    options.freeze = rule;
    return options;
  }

  // By name: whether the rule freezes it.
  std::map<std::string, bool> FrozenNames(const FreezeRule& rule) const {
    std::map<std::string, bool> names;
    const auto description = DescribeModel(model_, rule);
    TORCH_CHECK(description.ok(), description.status().ToString());
    for (const UnitDescription& unit : description->units) {
      for (const ParameterDescription& p : unit.parameters) names[p.name] = unit.frozen;
    }
    return names;
  }
};

TEST_F(Frozen, WhatIsTrainedGetsAutogradsGradientsAndTheRestStays) {
  for (const FreezeRule& rule : kFreezeRules) {
    SCOPED_TRACE(rule.freeze + " | " + rule.train_only);
    TrainOptions options = With(InMemory(DType::kFloat32), rule);
    options.output = Path(absl::StrCat("gradients", ++runs_));
    options.steps = 1;
    options.order = SampleOrder::kSequential;
    // SGD with a rate of 1 shows the gradient in the weights.
    options.optimizer.kind = OptimizerSpec::Kind::kSgd;
    options.optimizer.learning_rate = 1;
    options.optimizer.weight_decay = 0;
    options.schedule = {};
    options.schedule.kind = ScheduleSpec::Kind::kConstant;
    options.micro_batch = 4;
    options.accumulate = 1;
    MadeTokens data(50, kSeqLen, kVocabulary);
    InitSource weights(model_, /*seed=*/42);
    const InMemoryModel plain(model_, weights);
    const RunOutcome outcome = TrainToTheEnd(model_, data, nullptr, &weights, options);
    const Batch batch = *data.Get({0, 1, 2, 3});
    const torch::Tensor loss = plain.LossSum(batch) / (4 * kSeqLen);
    EXPECT_NEAR(outcome.rows[0]["loss"], loss.item<double>(), 1e-5);
    loss.backward();
    const auto after = *SafetensorsFile::Open(options.output + "/exported/model.safetensors");
    const auto frozen = FrozenNames(rule);
    for (const auto& [name, parameter] : plain.Parameters()) {
      torch::Tensor trained = torch::empty_like(parameter);
      ASSERT_TRUE(after->ReadFp32(name, 0, trained.numel(), trained.data_ptr<float>()).ok());
      if (frozen.at(name)) {
        EXPECT_TRUE(torch::equal(trained, parameter)) << name;
        EXPECT_EQ(outcome.digests[name].size(), 1u) << name;
        continue;
      }
      const torch::Tensor expected = parameter.detach() - parameter.grad();
      EXPECT_LT((trained - expected).abs().max().item<double>(), 1e-5) << name;
      EXPECT_FALSE(torch::equal(trained, parameter)) << name;
    }
  }
}

TEST_F(Frozen, TheSameBitsInEveryPlacementAndNothingOfItIsWritten) {
  for (const FreezeRule& rule : kFreezeRules) {
    for (const double clip : {0.0, 0.5}) {
      const DType dtype = clip > 0 ? DType::kBFloat16 : DType::kFloat32;
      SCOPED_TRACE(absl::StrCat(rule.freeze, " | ", rule.train_only, " clip ", clip));
      const RunOutcome plain = Run(With(InMemory(dtype, clip), rule));
      const TrainOptions nvme = With(Nvme(dtype, clip), rule);
      const RunOutcome loose = Run(nvme);
      ExpectSameBits(plain, loose, "NVMe");

      TrainOptions tight = nvme;
      SetSmallestBudgets(tight);
      tight.output.clear();
      tight.commit_every = 5;
      tight.offload_activations = Offload::kNvme;
      tight.recompute = Recompute::kAll;
      const RunOutcome smallest = Run(tight);
      ExpectSameBits(plain, smallest, "smallest budgets");

      TrainOptions host = With(InMemory(dtype, clip), rule);
      host.offload_param = Offload::kCpu;
      host.no_commit = false;
      host.swap_paths = {Path("a")};
      host.commit_every = 5;
      ExpectSameBits(plain, Run(host), "in the host's memory, committed");

      // The padded state of what is trained, and the inputs and gradients that spill, beside the
      // frozen weights: what a step writes has nothing to do with those.
      const auto description = *DescribeModel(model_, rule);
      const StateLayout layout =
          DescribeState(description, nvme.optimizer, dtype, nvme.tile_parameters);
      uint64_t trained = 0, frozen = 0;
      for (int unit = 0; unit < layout.num_units(); ++unit) {
        (layout.frozen(unit) ? frozen : trained) += layout.UnitBytes(unit);
      }
      EXPECT_GT(frozen, 0u);
      EXPECT_EQ(MovedPerParameter(loose, "nvme_written", 1), trained);
      // Of what is frozen there is a weight plane, and one slot.
      for (const auto& extent : loose.inspected["extents"]) {
        for (const UnitDescription& unit : description.units) {
          if (unit.frozen && unit.name == extent["unit"]) {
            EXPECT_EQ(extent["plane"], "weight");
          }
        }
      }
    }
  }
}

TEST_F(Frozen, AStoppedRunGoesOnWithTheSameBits) {
  const FreezeRule& rule = kFreezeRules[1];
  const RunOutcome plain = Run(With(InMemory(DType::kBFloat16, 0.5), rule));
  TrainOptions options = With(Nvme(DType::kBFloat16, 0.5), rule);
  options.output = Path("stopped");
  MadeTokens stopping(50, kSeqLen, kVocabulary);
  stopping.StopAt(5 * options.accumulate);
  const RunOutcome stopped = TrainToTheEnd(model_, stopping, nullptr, nullptr, options);
  ASSERT_EQ(stopped.result.end, TrainResult::End::kStopped);
  options.resume = true;

  TrainOptions other = With(options, kFreezeRules[2]);
  MadeTokens data(50, kSeqLen, kVocabulary);
  const auto refused = Train(model_, data, nullptr, nullptr, other, {});
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("freeze"));

  // The weights that were in the store are in the host's memory from now on.
  options.offload_param = Offload::kCpu;
  ExpectSameBits(plain, Run(options), "resumed");
}

TEST_F(Frozen, ARuleThatCannotBeMeantIsRefused) {
  const auto refusal = [&](const FreezeRule& rule) {
    return std::string(DescribeModel(model_, rule).status().message());
  };
  EXPECT_THAT(refusal({"(", ""}), HasSubstr("--freeze (: that is no regular expression"));
  EXPECT_THAT(refusal({"", "q_proj"}), HasSubstr("--train-only q_proj: found in no parameter's"));
  EXPECT_THAT(refusal({".", ""}), HasSubstr("all parameters are frozen"));
}

}  // namespace
}  // namespace spillway
