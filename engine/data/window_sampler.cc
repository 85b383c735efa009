#include "engine/data/window_sampler.h"

#include <algorithm>
#include <cmath>

#include "engine/numeric/random.h"
#include "io/base/check.h"

namespace spillway {

int64_t WindowCount(int64_t tokens, int64_t seq_len) {
  SPILLWAY_CHECK(seq_len > 0);
  return tokens > 0 ? (tokens - 1) / seq_len : 0;
}

int64_t SampleIndex(SampleOrder order, uint64_t seed, int64_t size, int64_t n) {
  SPILLWAY_CHECK(size > 0 && n >= 0);
  const int64_t position = n % size;
  if (order == SampleOrder::kSequential) return position;
  const uint64_t key = EpochKey(seed, static_cast<uint64_t>(n / size));
  return static_cast<int64_t>(
      Permute(static_cast<uint64_t>(position), static_cast<uint64_t>(size), key));
}

std::vector<int64_t> SamplesFrom(SampleOrder order, uint64_t seed, int64_t size, int64_t first,
                                 int64_t count) {
  std::vector<int64_t> samples(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    samples[static_cast<size_t>(i)] = SampleIndex(order, seed, size, first + i);
  }
  return samples;
}

int64_t StepsForEpochs(double epochs, int64_t size, int64_t global_batch,
                       const SampleCursor& cursor) {
  SPILLWAY_CHECK(size > 0 && global_batch > 0 && epochs >= 0);
  const double left = epochs * static_cast<double>(size) - static_cast<double>(cursor.samples);
  const double steps = static_cast<double>(cursor.step) +
                       std::max(0.0, std::ceil(left / static_cast<double>(global_batch)));
  return std::max<int64_t>(1, static_cast<int64_t>(std::min(steps, 0x1p62)));
}

}  // namespace spillway
