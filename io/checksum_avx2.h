// xxHash chooses its vector instructions at compile time, and the program is compiled for any
// processor. So the same code is compiled once more for AVX2. It is twice as fast, which a step
// notices because it checks and sums every byte it moves.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway {

#if defined(__x86_64__)

// XXH3-64 of the bytes; a seed of 0 is the unseeded hash. Any thread. REQUIRES: the processor has
// AVX2.
uint64_t ChecksumAvx2(const void* data, size_t size_bytes, uint64_t seed);

#endif

}  // namespace spillway
