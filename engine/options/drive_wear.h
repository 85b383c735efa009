// Drive wear by writing, for estimate, the end of train, and the report. Pure functions of values.
#pragma once

#include <string>

namespace spillway {

// Default rating of a drive, in bytes a day: 3.84 TB, one write a day of a drive of that size.
inline constexpr double kDriveBytesPerDay = 3.84e12;
// Duration of such a rating: 7 PB in total.
inline constexpr double kDriveRatedYears = 5;

// `bytes` as a number of rated days.
double DriveDays(double bytes, double drive_bytes_per_day);

// Rated bytes of the drive's whole life.
double DriveLifeBytes(double drive_bytes_per_day);

// Life of the drive in seconds at this rate of writing without pause.
double DriveLifeSeconds(double bytes_per_second, double drive_bytes_per_day);

// The duration in words: "36 hours", "148 days", "2.3 years".
std::string DriveLifeText(double seconds);

}  // namespace spillway
