// The wear of a drive by writes: the same figures in estimate, at train's end and in the report.
// Pure functions of values.
#pragma once

#include <string>

namespace spillway {

// Default of a drive's rated writes per day: 3.84 TB, one write per day of a drive of that size.
inline constexpr double kDriveBytesPerDay = 3.84e12;
// Years for which such ratings hold: 7 PB in total.
inline constexpr double kDriveRatedYears = 5;

// Days of the drive's rating that `bytes` use up.
double DriveDays(double bytes, double drive_bytes_per_day);

// Total rated writes over the drive's life.
double DriveLifeBytes(double drive_bytes_per_day);

// The drive's life under continuous writes at this rate.
double DriveLifeSeconds(double bytes_per_second, double drive_bytes_per_day);

// "36 hours", "148 days", "2.3 years".
std::string DriveLifeText(double seconds);

}  // namespace spillway
