#include "swap/plan/step_clock.h"

#include <algorithm>

#include "io/base/check.h"

namespace spillway {

double SecondsAt(double bytes_per_second, double bytes) {
  if (bytes <= 0) return 0;
  SPILLWAY_CHECK(bytes_per_second > 0);
  return bytes / bytes_per_second;
}

double DiskRates::Seconds(double read_bytes, double written_bytes) const {
  return std::max({SecondsAt(read_bytes_per_second, read_bytes),
                   SecondsAt(write_bytes_per_second, written_bytes),
                   SecondsAt(mixed_bytes_per_second, read_bytes + written_bytes)});
}

double LinkRates::SecondsToDevice(double bytes) const {
  return SecondsAt(to_device_bytes_per_second, bytes);
}

double LinkRates::SecondsToHost(double bytes) const {
  return SecondsAt(to_host_bytes_per_second, bytes);
}

}  // namespace spillway
