#include "engine/estimate/timings.h"

#include <algorithm>

namespace spillway {
namespace {

constexpr double kOrdinary = 1.25;  // times the quickest

}  // namespace

double Timings::Typical() const {
  if (seconds_.empty()) return 0;
  std::vector<double> ordered = seconds_;
  std::sort(ordered.begin(), ordered.end());
  const auto ordinary =
      std::upper_bound(ordered.begin(), ordered.end(), kOrdinary * ordered.front());
  const size_t count = ordinary - ordered.begin();
  return (ordered[(count - 1) / 2] + ordered[count / 2]) / 2;
}

}  // namespace spillway
