// A step none of whose tokens has a label changes nothing, wherever state lies and whenever it is
// updated, and the steps after it go on.
#include "tests/torch/same_bits.h"

namespace spillway {
namespace {

constexpr int64_t kEmptyStep = 4, kStepSamples = 4;

// MadeTokens, of which those of one step have no labels.
class PartlyLabelled : public Dataset {
 public:
  int64_t size() const override { return tokens_.size(); }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    absl::StatusOr<Batch> batch = tokens_.Get(samples);
    for (size_t i = 0; i < samples.size(); ++i) {
      if (samples[i] / kStepSamples != kEmptyStep - 1) continue;
      batch->labels[static_cast<int64_t>(i)].fill_(kIgnoredLabel);
    }
    return batch;
  }
  std::string fingerprint() const override { return "partly labelled"; }

 private:
  MadeTokens tokens_{50, kSeqLen, kVocabulary};
};

class EmptyStep : public SameBits {
 protected:
  std::unique_ptr<Dataset> NewData() const override { return std::make_unique<PartlyLabelled>(); }

  RunOutcome RunSteps(TrainOptions options, int64_t steps, UpdateChoice update) {
    options.order = SampleOrder::kSequential;
    options.schedule.kind = ScheduleSpec::Kind::kConstant;
    options.schedule.warmup_steps = 0;
    options.steps = steps;
    options.update = update;
    options.loss_scale.initial_scale_power = 4;
    return Run(options);
  }
};

TEST_F(EmptyStep, ChangesNothingWhereverStateLies) {
  for (const auto& [dtype, clip, update] :
       {std::tuple{DType::kFloat32, 0.0, UpdateChoice::kImmediate},
        {DType::kFloat32, 0.0, UpdateChoice::kDeferred},
        {DType::kBFloat16, 0.5, UpdateChoice::kAuto},
        {DType::kFloat16, 0.5, UpdateChoice::kAuto}}) {
    SCOPED_TRACE(absl::StrCat(std::string(DTypeName(dtype)), " clip ", clip));
    const RunOutcome before = RunSteps(InMemory(dtype, clip), kEmptyStep - 1, update);
    const RunOutcome at = RunSteps(InMemory(dtype, clip), kEmptyStep, update);
    EXPECT_EQ(at.digests, before.digests);
    EXPECT_EQ(at.rows.back()["tokens"], 0);
    EXPECT_EQ(at.rows.back()["skipped"], true);
    EXPECT_EQ(RunSteps(Nvme(dtype, clip), kEmptyStep, update).digests, before.digests);

    const RunOutcome after = RunSteps(InMemory(dtype, clip), kEmptyStep + 3, update);
    EXPECT_NE(after.digests, before.digests);
    EXPECT_EQ(RunSteps(Nvme(dtype, clip), kEmptyStep + 3, update).digests, after.digests);
  }
}

}  // namespace
}  // namespace spillway
