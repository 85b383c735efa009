// xxHash chooses its vectors when it is compiled, and the rest of the program is compiled
// for any processor. So the same code stands here once more, compiled for AVX2: twice the
// rate, which a step feels that checks and sums every byte it moves.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway {

#if defined(__x86_64__)

// XXH3-64 of the bytes; a seed of 0 is none. Any thread. REQUIRES: the processor has AVX2.
uint64_t ChecksumAvx2(const void* data, size_t size_bytes, uint64_t seed);

#endif

}  // namespace spillway
