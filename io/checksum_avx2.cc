// Compiled with -mavx2: define nothing here that another file could share.
#include "io/checksum_avx2.h"

#include <xxhash.h>

namespace spillway {

#if defined(__x86_64__)

static_assert(XXH_VECTOR == XXH_AVX2);

uint64_t ChecksumAvx2(const void* data, size_t size_bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, size_bytes, seed);
}

#endif

}  // namespace spillway
