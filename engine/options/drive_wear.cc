#include "engine/options/drive_wear.h"

#include "absl/strings/str_format.h"

namespace spillway {

constexpr double kHourSeconds = 3600;
constexpr double kDaySeconds = 24 * kHourSeconds;
constexpr double kYearDays = 365.25;

double DriveDays(double bytes, double drive_bytes_per_day) { return bytes / drive_bytes_per_day; }

double DriveLifeBytes(double drive_bytes_per_day) {
  return drive_bytes_per_day * kDriveRatedYears * kYearDays;
}

double DriveLifeSeconds(double bytes_per_second, double drive_bytes_per_day) {
  return DriveLifeBytes(drive_bytes_per_day) / bytes_per_second;
}

std::string DriveLifeText(double seconds) {
  if (seconds < 3 * kDaySeconds) return absl::StrFormat("%.3g hours", seconds / kHourSeconds);
  const double days = seconds / kDaySeconds;
  if (days < 2 * kYearDays) return absl::StrFormat("%.0f days", days);
  const double years = days / kYearDays;
  return years < 1000 ? absl::StrFormat("%.3g years", years) : "over 1000 years";
}

}  // namespace spillway
