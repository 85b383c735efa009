#include "engine/options/drive_wear.h"

#include "gtest/gtest.h"

namespace spillway {
namespace {

TEST(DriveWear, ADriveOfOneWriteADayTakesSevenPetabytes) {
  EXPECT_NEAR(DriveLifeBytes(kDriveBytesPerDay), 7.0e15, 0.05e15);
  EXPECT_DOUBLE_EQ(DriveDays(3.84e12, kDriveBytesPerDay), 1);
  // Written exactly as it is rated, it lasts as long as it is rated for.
  EXPECT_NEAR(DriveLifeSeconds(kDriveBytesPerDay / 86400, kDriveBytesPerDay),
              kDriveRatedYears * 365.25 * 86400, 1);
}

TEST(DriveWear, LivesAreInUnitsThatFit) {
  EXPECT_EQ(DriveLifeText(36 * 3600), "36 hours");
  EXPECT_EQ(DriveLifeText(148.2 * 86400), "148 days");
  EXPECT_EQ(DriveLifeText(5 * 365.25 * 86400), "5 years");
  EXPECT_EQ(DriveLifeText(1e15), "over 1000 years");
}

}  // namespace
}  // namespace spillway
