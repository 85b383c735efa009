// Percentiles of many latencies in a fixed amount of memory.
#pragma once

#include <array>
#include <cstdint>

namespace spillway {

// A summary of a histogram; zeros when it is empty.
struct LatencySummary {
  uint64_t count = 0;
  double p50_seconds = 0;
  double p90_seconds = 0;
  double p99_seconds = 0;
  double p999_seconds = 0;
  double max_seconds = 0;
};

// Every power of two of nanoseconds has 64 buckets: percentiles are at most 1/64 too high, and
// never too low. The maximum is exact. One thread.
class LatencyHistogram {
 public:
  void Add(int64_t nanoseconds);

  // The smallest latency that at least `fraction` (0 to 1) of the samples do not exceed.
  int64_t Percentile(double fraction) const;
  LatencySummary Summary() const;

 private:
  static constexpr int kSubBits = 6;
  static int BucketOf(uint64_t nanoseconds);
  static uint64_t LastOf(int bucket);

  std::array<uint64_t, (64 - kSubBits + 1) << kSubBits> counts_ = {};
  uint64_t count_ = 0;
  int64_t max_ = 0;
};

}  // namespace spillway
