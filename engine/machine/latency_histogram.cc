#include "engine/machine/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace spillway {

// Below 64 ns a bucket is a nanosecond; above, the leading bit selects the power of two and the
// next six bits the bucket in it.
int LatencyHistogram::BucketOf(uint64_t nanoseconds) {
  if (nanoseconds < (1u << kSubBits)) return static_cast<int>(nanoseconds);
  const int shift = std::bit_width(nanoseconds) - 1 - kSubBits;
  return static_cast<int>(((static_cast<uint64_t>(shift) + 1) << kSubBits) +
                          (nanoseconds >> shift) - (1u << kSubBits));
}

uint64_t LatencyHistogram::LastOf(int bucket) {
  if (bucket < (1 << kSubBits)) return static_cast<uint64_t>(bucket);
  const int shift = (bucket >> kSubBits) - 1;
  const uint64_t inside = static_cast<uint64_t>(bucket) & ((1u << kSubBits) - 1);
  return ((inside + (1u << kSubBits) + 1) << shift) - 1;
}

void LatencyHistogram::Add(int64_t nanoseconds) {
  nanoseconds = std::max<int64_t>(nanoseconds, 0);
  ++counts_[static_cast<size_t>(BucketOf(static_cast<uint64_t>(nanoseconds)))];
  ++count_;
  max_ = std::max(max_, nanoseconds);
}

int64_t LatencyHistogram::Percentile(double fraction) const {
  const auto wanted = static_cast<uint64_t>(std::ceil(fraction * static_cast<double>(count_)));
  uint64_t seen = 0;
  for (int bucket = 0; bucket < static_cast<int>(counts_.size()); ++bucket) {
    seen += counts_[static_cast<size_t>(bucket)];
    if (seen >= wanted && seen > 0) {
      return std::min(max_, static_cast<int64_t>(LastOf(bucket)));
    }
  }
  return 0;
}

LatencySummary LatencyHistogram::Summary() const {
  const auto seconds = [this](double fraction) {
    return 1e-9 * static_cast<double>(Percentile(fraction));
  };
  return {.count = count_,
          .p50_seconds = seconds(0.5),
          .p90_seconds = seconds(0.9),
          .p99_seconds = seconds(0.99),
          .p999_seconds = seconds(0.999),
          .max_seconds = 1e-9 * static_cast<double>(max_)};
}

}  // namespace spillway
