#include "swap/plan/stay_packing.h"

#include <algorithm>
#include <numeric>

namespace spillway {
namespace {

constexpr uint64_t kAlignment = 4096;

uint64_t RoundUp(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

bool LifetimesMeet(const Lifetime& a, const Lifetime& b, int period) {
  // Lifetimes reach at most one period beyond the step on either side.
  for (int shift = -2; shift <= 2; ++shift) {
    if (a.first <= b.last + shift * period && b.first + shift * period <= a.last) return true;
  }
  return false;
}

uint64_t PackBuffers(int period, std::vector<PackedBuffer>& buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  uint64_t used = 0;
  std::vector<size_t> placed;
  for (size_t i : order) {
    PackedBuffer& buffer = buffers[i];
    // The placed buffers that share time with this one, by address.
    std::vector<const PackedBuffer*> neighbours;
    for (size_t j : placed) {
      if (LifetimesMeet(buffer.lifetime, buffers[j].lifetime, period)) {
        neighbours.push_back(&buffers[j]);
      }
    }
    std::sort(neighbours.begin(), neighbours.end(),
              [](const PackedBuffer* a, const PackedBuffer* b) { return a->offset < b->offset; });
    uint64_t offset = 0;
    for (const PackedBuffer* neighbour : neighbours) {
      if (offset + buffer.bytes <= neighbour->offset) break;
      offset = std::max(offset, neighbour->offset + RoundUp(neighbour->bytes));
    }
    buffer.offset = offset;
    used = std::max(used, offset + RoundUp(buffer.bytes));
    placed.push_back(i);
  }
  return used;
}

}  // namespace spillway
