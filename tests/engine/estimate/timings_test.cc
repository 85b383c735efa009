#include "engine/estimate/timings.h"

#include "gtest/gtest.h"

namespace spillway {
namespace {

double Typical(std::initializer_list<double> seconds) {
  Timings timings;
  for (double each : seconds) timings.Add(each);
  return timings.Typical();
}

TEST(Timings, AreTheMedianOfWhatIsNotFarFromTheQuickest) {
  EXPECT_EQ(Typical({}), 0);
  EXPECT_EQ(Typical({3}), 3);
  EXPECT_EQ(Typical({10, 11}), 10.5);
  EXPECT_EQ(Typical({12, 10, 11}), 11);
  EXPECT_EQ(Typical({10, 12.5, 12.6}), 11.25);
}

TEST(Timings, LeaveOutAColdStartAndASlowSpellHoweverLong) {
  EXPECT_EQ(Typical({65, 17, 16, 18}), 17);
  EXPECT_EQ(Typical({30, 31, 33, 32, 29, 16, 17, 16}), 16);
}

}  // namespace
}  // namespace spillway
