#include "swap/plan/step_schedule.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

// "loss 3 weights 0,3 gradients 0,3" and so on, one line an op.
std::string Describe(const StepSchedule& schedule) {
  std::string text;
  for (const StepOp& op : schedule.ops) {
    absl::StrAppend(&text, OpKindName(op.kind), " ", op.unit, " weights ",
                    absl::StrJoin(op.weights, ","), " gradients ", absl::StrJoin(op.gradients, ","),
                    "\n");
  }
  return text;
}

// Embedding, two blocks, a head that borrows from the embedding.
ScheduleModel Gpt() { return {{{}, {}, {}, {0}}}; }

TEST(StepSchedule, TrainingWalksForwardThenBackward) {
  const StepSchedule schedule = BuildTrainSchedule(Gpt(), UpdateMode::kDeferred);
  EXPECT_EQ(schedule.update, UpdateMode::kDeferred);
  EXPECT_EQ(Describe(schedule),
            "forward 0 weights 0 gradients \n"
            "forward 1 weights 1 gradients \n"
            "forward 2 weights 2 gradients \n"
            "loss 3 weights 0,3 gradients 0,3\n"
            "backward 2 weights 2 gradients 2\n"
            "backward 1 weights 1 gradients 1\n"
            "backward 0 weights 0 gradients 0\n");
}

TEST(StepSchedule, TheBackwardEndsWithTheFirstThatReadsWhatIsTrained) {
  // The second block is trained, but for what it has in unit 4.
  const ScheduleModel model{{{}, {}, {4}, {0}}, {false, false, true, true, false}};
  EXPECT_EQ(Describe(BuildTrainSchedule(model, UpdateMode::kImmediate)),
            "forward 0 weights 0 gradients \n"
            "forward 1 weights 1 gradients \n"
            "forward 2 weights 2,4 gradients \n"
            "loss 3 weights 0,3 gradients 3\n"
            "backward 2 weights 2,4 gradients 2\n");
  const ScheduleModel head{{{}, {}, {0}}, {false, false, true}};
  EXPECT_EQ(Describe(BuildTrainSchedule(head, UpdateMode::kImmediate)),
            "forward 0 weights 0 gradients \n"
            "forward 1 weights 1 gradients \n"
            "loss 2 weights 0,2 gradients 2\n");
}

TEST(StepSchedule, EvaluationTouchesNoGradient) {
  EXPECT_EQ(Describe(BuildEvaluateSchedule(Gpt())),
            "forward 0 weights 0 gradients \n"
            "forward 1 weights 1 gradients \n"
            "forward 2 weights 2 gradients \n"
            "loss 3 weights 0,3 gradients \n");
}

TEST(StepSchedule, AnyUnitMayBorrow) {
  // Repeats and the unit itself count once.
  const ScheduleModel model{{{}, {2, 0, 2, 1}, {}}};
  EXPECT_EQ(Describe(BuildTrainSchedule(model, UpdateMode::kImmediate)),
            "forward 0 weights 0 gradients \n"
            "forward 1 weights 0,1,2 gradients \n"
            "loss 2 weights 2 gradients 2\n"
            "backward 1 weights 0,1,2 gradients 0,1,2\n"
            "backward 0 weights 0 gradients 0\n");
}

TEST(StepSchedule, OneUnitIsOnlyALoss) {
  EXPECT_EQ(Describe(BuildTrainSchedule({{{}}}, UpdateMode::kImmediate)),
            "loss 0 weights 0 gradients 0\n");
  EXPECT_EQ(Describe(BuildEvaluateSchedule({{{}}})), "loss 0 weights 0 gradients \n");
}

TEST(StepScheduleDeathTest, BorrowingFromNobodyIsOurMistake) {
  EXPECT_DEATH(BuildTrainSchedule({{{}, {2}}}, UpdateMode::kImmediate), "");
  EXPECT_DEATH(BuildEvaluateSchedule({}), "");
  EXPECT_DEATH(BuildTrainSchedule({{{}, {}}, {false, false}}, UpdateMode::kImmediate), "");
}

}  // namespace
}  // namespace spillway
