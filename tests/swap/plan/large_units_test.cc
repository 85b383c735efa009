#include "swap/plan/large_units.h"

#include "gtest/gtest.h"
#include "tests/swap/plan/gpt_like.h"

namespace spillway {
namespace {

LargeUnits Of(std::vector<uint64_t> parameters) {
  std::vector<UnitLayout> units;
  ScheduleModel model;
  for (uint64_t count : parameters) {
    units.push_back({absl::StrCat("u", units.size()), count});
    model.borrows.push_back({});
  }
  const StateLayout layout(std::move(units), {{Plane::kWeight, 2}}, 2, 65536);
  return LargeUnits(layout, BuildTrainSchedule(model, UpdateMode::kImmediate));
}

TEST(LargeUnits, WhereAllAreAlikeNoneIsLarge) {
  EXPECT_FALSE(Of({1 << 20, 1 << 20, 1 << 20}).any());
  EXPECT_FALSE(Of({64, 1 << 20, 1 << 20, 1 << 20, 64}).any());
}

TEST(LargeUnitsDeathTest, NothingIsNearALargeUnitWhereThereIsNone) {
  const LargeUnits large = Of({1 << 20, 1 << 20, 1 << 20});
  EXPECT_DEATH(large.Since(0), "any");
}

// Operations: the forwards of units 0 to 3, the loss of unit 4, the backwards of 3 to 0.
TEST(LargeUnits, AreFoundAtBothEndsAndInTheMiddleOverTheTurn) {
  const LargeUnits large = Of({8 << 20, 1 << 20, 1 << 20, 1 << 20, 8 << 20});
  ASSERT_TRUE(large.any());
  const int since[] = {0, 0, 1, 2, 0, 0, 1, 2, 0}, until[] = {0, 2, 1, 0, 0, 2, 1, 0, 0};
  for (int op = 0; op < 9; ++op) {
    EXPECT_EQ(large.Since(op), since[op]) << op;
    EXPECT_EQ(large.Until(op), until[op]) << op;
  }
  // Of one alone its forward, and its backward.
  const LargeUnits first = Of({1 << 20, 8 << 20, 1 << 20, 1 << 20, 1 << 20});
  EXPECT_EQ(first.Since(0), 1) << "the backward of unit 0 is between";
  EXPECT_EQ(first.Until(8), 1);
  EXPECT_EQ(first.Until(2), 4);
}

}  // namespace
}  // namespace spillway
