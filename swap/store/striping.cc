#include "swap/store/striping.h"

#include <cmath>
#include <utility>

#include "io/base/check.h"

namespace spillway {
namespace {

bool IsKnown(double rate) { return std::isfinite(rate) && rate > 0; }

}  // namespace

Striping::Striping(std::vector<double> rates) : rates_(std::move(rates)) {
  dealt_bytes_.resize(rates_.size());
  double sum = 0;
  int known = 0;
  for (const double rate : rates_) {
    if (!IsKnown(rate)) continue;
    sum += rate;
    ++known;
  }
  const double mean = known > 0 ? sum / known : 1;
  for (double& rate : rates_) {
    if (!IsKnown(rate)) rate = mean;
  }
}

int Striping::Next(uint64_t size_bytes) {
  SPILLWAY_CHECK(!rates_.empty());
  const auto end = [&](size_t path) {
    return static_cast<double>(dealt_bytes_[path] + size_bytes) / rates_[path];
  };
  size_t first = 0;
  for (size_t path = 1; path < rates_.size(); ++path) {
    if (end(path) < end(first)) first = path;
  }
  dealt_bytes_[first] += size_bytes;
  return static_cast<int>(first);
}

}  // namespace spillway
