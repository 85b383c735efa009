// Random numbers as functions of their purpose.
//
// Everything random in a run comes from Philox4x32-10 (Salmon et al., "Parallel Random
// Numbers: As Easy as 1, 2, 3", SC'11): a keyed bijection of a 128-bit counter. There is
// no state, so a dropout mask or an initial value is the same on recompute, on any
// rank, in any tile, on any thread and SIMD target. Any thread.
#pragma once

#include <array>
#include <cstdint>

#include "engine/numeric/dtype.h"

namespace spillway {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key);

// The purpose of a dropout mask. `site`: index of the dropout within its unit.
struct DropoutKey {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t sample = 0;
  uint32_t unit = 0;
  uint32_t site = 0;

  friend bool operator==(const DropoutKey&, const DropoutKey&) = default;
};

// out[i] = keep(begin + i) ? round(in[i] * float(1 / (1 - p))) : 0 for i in [0, count).
// Forward (activations) and backward (gradients) use the same call. Element e of the
// mask depends on key and e alone, however the range is cut. An element is dropped when
// its 16 random bits are below round(p * 65536).
// `out` may be `in`; otherwise they must not overlap. REQUIRES: 0 <= p < 1.
void DropoutApply(const DropoutKey& key, double p, uint64_t begin, uint64_t count, DType dtype,
                  const void* in, void* out);

// out[i] = float(mean + std * z), z the standard normal value number first_index + i of
// `stream` (one stream a parameter tensor). Box and Muller's transform in double, with
// log, sin and cos of our own, so that the bits are the same on every machine.
void FillNormal(uint64_t seed, uint64_t stream, uint64_t first_index, uint64_t count, double mean,
                double std, float* out);

// out[i] uniform in [low, high), the value number first_index + i of `stream`.
void FillUniform(uint64_t seed, uint64_t stream, uint64_t first_index, uint64_t count, double low,
                 double high, float* out);

// 64 random bits for (seed, stream, index): seeds of other generators.
uint64_t RandomBits(uint64_t seed, uint64_t stream, uint64_t index);

// Position `index` of a pseudo-random permutation of [0, n) chosen by `key`: a Feistel
// network over the next power of four, walked until it lands below n (Black and
// Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). No memory, O(1) a call.
// REQUIRES: index < n.
uint64_t Permute(uint64_t index, uint64_t n, uint64_t key);

// The key of an epoch's permutation.
uint64_t EpochKey(uint64_t seed, uint64_t epoch);

}  // namespace spillway
