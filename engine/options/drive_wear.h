// What writing does to a drive: the same figures in estimate, at train's end and in the report.
// Pure functions of values.
#pragma once

#include <string>

namespace spillway {

// What a drive is rated to be written a day, unless the user knows better: 3.84 TB, one write
// a day of a drive of that size...
inline constexpr double kDriveBytesPerDay = 3.84e12;
// ...for so long as such ratings are given: 7 PB in all.
inline constexpr double kDriveRatedYears = 5;

// Rated days of the drive that so many bytes are.
double DriveDays(double bytes, double drive_bytes_per_day);

// What the drive is rated to be written in its whole life.
double DriveLifeBytes(double drive_bytes_per_day);

// How long it lasts when it is written without pause at this rate.
double DriveLifeSeconds(double bytes_per_second, double drive_bytes_per_day);

// "36 hours", "148 days", "2.3 years".
std::string DriveLifeText(double seconds);

}  // namespace spillway
