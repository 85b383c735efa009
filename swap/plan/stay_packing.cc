#include "swap/plan/stay_packing.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "io/base/check.h"

namespace spillway {
namespace {

constexpr uint64_t kAlignment = 4096;

uint64_t RoundUp(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

uint64_t PackBuffers(int period, std::vector<PackedBuffer>& buffers) {
  SPILLWAY_CHECK(period > 0 || buffers.empty());
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  uint64_t used = 0;
  // The placed buffers that are alive during each operation: most live for a few only, so that
  // few meet.
  std::vector<std::vector<size_t>> alive(period);
  std::vector<size_t> met_by(buffers.size(), buffers.size());
  std::vector<const PackedBuffer*> neighbours;  // that share time with this one
  for (size_t i : order) {
    PackedBuffer& buffer = buffers[i];
    buffer.offset = 0;
    if (buffer.bytes == 0) break;  // and all that follow
    SPILLWAY_CHECK(buffer.lifetime.first <= buffer.lifetime.last);
    const int first = buffer.lifetime.first;
    const int ops = std::min(buffer.lifetime.last - first + 1, period);
    neighbours.clear();
    for (int op = 0; op < ops; ++op) {
      for (size_t j : alive[((first + op) % period + period) % period]) {
        if (std::exchange(met_by[j], i) != i) neighbours.push_back(&buffers[j]);
      }
    }
    std::sort(neighbours.begin(), neighbours.end(),
              [](const PackedBuffer* a, const PackedBuffer* b) { return a->offset < b->offset; });
    for (const PackedBuffer* neighbour : neighbours) {
      if (buffer.offset + buffer.bytes <= neighbour->offset) break;
      buffer.offset = std::max(buffer.offset, neighbour->offset + RoundUp(neighbour->bytes));
    }
    used = std::max(used, buffer.offset + RoundUp(buffer.bytes));
    for (int op = 0; op < ops; ++op) {
      alive[((first + op) % period + period) % period].push_back(i);
    }
  }
  return used;
}

}  // namespace spillway
