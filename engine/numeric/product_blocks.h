// The blocks of a product of 16-bit matrices that is computed in fp32: blocks of both operands are
// converted and multiplied, and a block of the result is rounded once. Sizes depend on shapes
// alone, so the bits are the same in every placement. Any thread.
#pragma once

#include <cstdint>

namespace spillway {

struct ProductBlocks {
  static constexpr int64_t kMost = 1024;
  // Smaller blocks if each converted number is used few times: then it must stay in the cache,
  // which halves the time.
  static constexpr int64_t kFewRows = 128, kFewColumns = 256;

  // [m, k] x [k, n]
  ProductBlocks(int64_t m, int64_t n, int64_t k, int64_t most = kMost)
      : rows(Even(m, most)),
        columns(Even(n, m <= kFewRows && most > kFewColumns ? kFewColumns : most)),
        depth(Even(k, most)) {}

  // Bytes of both operands' blocks and of the result's: at most 12 MiB.
  uint64_t bytes() const {
    return sizeof(float) * (rows * depth + depth * columns + rows * columns);
  }

  int64_t rows, columns, depth;

 private:
  // The size of the fewest equal pieces of whole cache lines. (`most` is a multiple of 16.)
  static int64_t Even(int64_t size, int64_t most) {
    if (size <= most) return size;
    const int64_t pieces = (size + most - 1) / most;
    return ((size + pieces - 1) / pieces + 15) / 16 * 16;
  }
};

}  // namespace spillway
