// Memory that is refused in the middle of a run: what can be committed is, and resumes.
#include <fstream>

#include "engine/machine/memory_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/device/test_device.h"
#include "tests/engine/train/trainer_testing.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

constexpr int kOps = 7;  // forwards of three units, the loss, their backwards

class RefusedMemory : public TrainerTest {
 protected:
  // A step that was refused has changed them.
  RefusedMemory() { buffers_ = {{"seen", {2}, {0, 0}}}; }

  TrainOptions OptionsFor(const std::string& name, double clip, Offload offload) const {
    TrainOptions options = Options(name);
    options.clip = clip;
    options.offload_param = options.offload_optimizer = offload;
    options.swap_paths = {folder_ + "/a"};
    options.steps = 6;
    return options;
  }

  // An output of its own.
  std::string Named(const std::string& name) { return absl::StrCat(name, ++outputs_); }

  // What the run says that is refused memory at `op` of step `step`.
  std::string Refused(const TrainOptions& options, int64_t step, int op) {
    refuse_at_ = step;
    refuse_at_op_ = op;
    TrainResult result;
    const absl::Status status = Train(options, &result).status();
    refuse_at_ = refuse_evaluation_ = 0;
    EXPECT_EQ(ExitCodeOf(status), 1) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("1 GiB more is needed"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("--device-memory"));
    return std::string(status.message());
  }

  int64_t CommittedStep(const TrainOptions& options) {
    const auto run = InspectRun(options.output);
    return run.ok() ? (*run)["step"].get<int64_t>() : 0;
  }

  void ExpectResumesTo(TrainOptions options, const nlohmann::json& digests) {
    options.resume = true;
    TrainResult result;
    const auto resumed = Train(options, &result);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    EXPECT_EQ(*resumed, digests);
    EXPECT_THAT(StepsOf(options, "/metrics.jsonl"), testing::ElementsAre(1, 2, 3, 4, 5, 6));
  }

  int outputs_ = 0;
};

// Deferred updates wait for the whole step's norm: before that nothing of it has changed.
TEST_F(RefusedMemory, TheStepBeforeIsCommittedWhereUpdatesAreDeferred) {
  for (const Offload offload : {Offload::kCpu, Offload::kNvme, Offload::kAuto}) {
    TrainResult result;
    const auto expected = Train(OptionsFor(Named("whole"), 1.0, offload), &result);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (int op : {-1, 0, kOps / 2, kOps - 1}) {
      SCOPED_TRACE(testing::Message() << "offload " << int(offload) << " op " << op);
      const TrainOptions options = OptionsFor(Named("refused"), 1.0, offload);
      EXPECT_THAT(Refused(options, 4, op),
                  HasSubstr("step 3 is committed: go on from there with --resume"));
      EXPECT_EQ(CommittedStep(options), 3);
      ExpectResumesTo(options, *expected);
    }
  }
}

// Immediate ones begin with the first complete gradient, and then only an earlier commit is whole.
TEST_F(RefusedMemory, ImmediateUpdatesThatHaveBegunLeaveTheLastCommit) {
  for (const double share : {0.0, 0.5}) {
    for (const Offload offload : {Offload::kCpu, Offload::kNvme}) {
      TrainOptions whole = OptionsFor(Named("whole"), 0, offload);
      whole.deferred_share = share;
      TrainResult result;
      const auto expected = Train(whole, &result);
      ASSERT_TRUE(expected.ok()) << expected.status();
      for (int op : {1, kOps / 2, kOps / 2 + 1, kOps - 1}) {
        SCOPED_TRACE(testing::Message()
                     << "share " << share << " offload " << int(offload) << " op " << op);
        TrainOptions options = OptionsFor(Named("refused"), 0, offload);
        options.deferred_share = share;
        options.commit_every = 2;
        const std::string said = Refused(options, 4, op);
        const int64_t committed = CommittedStep(options);
        if (op <= kOps / 2) {  // up to the loss
          EXPECT_EQ(committed, 3);
          EXPECT_THAT(said, HasSubstr("step 3 is committed: go on"));
        } else {
          EXPECT_EQ(committed, 2);
          EXPECT_THAT(said, HasSubstr("step 4 had already changed a part of the state"));
          EXPECT_THAT(said, HasSubstr("the last commit is that of step 2: go on from there"));
        }
        ExpectResumesTo(options, *expected);
      }
    }
  }
}

// Tiles of the step before may still be on their way through the device.
TEST_F(RefusedMemory, OnADeviceThatStreamsUpdatesTheSameIsCommitted) {
  for (const Offload offload : {Offload::kCpu, Offload::kNvme}) {
    for (const double clip : {0.0, 1.0}) {
      separate_ = nullptr;
      TrainResult result;
      const auto expected = Train(OptionsFor(Named("whole"), clip, offload), &result);
      ASSERT_TRUE(expected.ok()) << expected.status();
      for (int op : {-1, 0, kOps / 2, kOps - 1}) {
        SCOPED_TRACE(testing::Message()
                     << "offload " << int(offload) << " clip " << clip << " op " << op);
        TestDevice device({.seed = static_cast<uint32_t>(op + 2)});
        separate_ = &device;
        TrainOptions options = OptionsFor(Named("refused"), clip, offload);
        options.update_device = UpdateDevice::kGpu;
        options.commit_every = 2;
        Refused(options, 4, op);
        const bool whole = clip > 0 || op <= kOps / 2;  // up to the loss
        EXPECT_EQ(CommittedStep(options), whole ? 3 : 2);
        ExpectResumesTo(options, *expected);
      }
    }
  }
}

// Between two steps all that was done is whole.
TEST_F(RefusedMemory, ToAnEvaluationTheStepItJudgesIsCommitted) {
  for (const double clip : {0.0, 1.0}) {
    const auto options_for = [&](const std::string& name) {
      TrainOptions options = OptionsFor(Named(name), clip, Offload::kNvme);
      options.eval_every = 2;
      return options;
    };
    TrainResult result;
    const auto expected = Train(options_for("whole"), &result);
    ASSERT_TRUE(expected.ok()) << expected.status();
    // After no step at all, in the middle, and at the end.
    for (int64_t step : {0, 4, 6}) {
      SCOPED_TRACE(testing::Message() << "clip " << clip << " step " << step);
      refuse_evaluation_ = static_cast<int>(1 + step / 2);
      TrainOptions options = options_for("refused");
      const std::string said = Refused(options, 0, 0);
      EXPECT_EQ(CommittedStep(options), step);
      EXPECT_THAT(said, HasSubstr(step == 0 ? "no step was done"
                                            : absl::StrCat("step ", step, " is committed: go on")));
      if (step == 0) continue;
      EXPECT_EQ((*InspectRun(options.output))["finished"], false);
      ExpectResumesTo(options, *expected);
      EXPECT_EQ((*InspectRun(options.output))["finished"], true);
      EXPECT_THAT(StepsOf(options, "/eval.jsonl"), testing::ElementsAre(0, 2, 4, 6));
    }
  }
}

TEST_F(RefusedMemory, WithoutAnythingToCommitItSaysSo) {
  TrainOptions options = OptionsFor("first", 1.0, Offload::kNvme);
  EXPECT_THAT(Refused(options, 1, 2), HasSubstr("no step was done"));
  EXPECT_EQ(CommittedStep(options), 0);
  options = OptionsFor("never", 1.0, Offload::kNvme);
  options.no_commit = true;
  EXPECT_THAT(Refused(options, 3, 2), HasSubstr("nothing is committed (--no-commit)"));
  options = OptionsFor("none", 0, Offload::kNvme);
  const std::string said = Refused(options, 3, kOps - 1);
  EXPECT_THAT(said, HasSubstr("step 3 had already changed a part of the state"));
  EXPECT_THAT(said, HasSubstr("no commit was made, so --resume starts at step 1"));
}

}  // namespace
}  // namespace spillway
