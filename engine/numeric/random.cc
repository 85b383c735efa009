#include "engine/numeric/random.h"

#include <bit>
#include <cmath>

#include "engine/numeric/philox.h"
#include "engine/numeric/simd_dispatch.h"
#include "io/base/check.h"

namespace spillway {
namespace {

// Separates streams of different purposes under one seed.
constexpr uint64_t kStreamDomain = 0x53747265616d0001;   // "Stream"
constexpr uint64_t kPermuteDomain = 0x5065726d75740002;  // "Permut"

constexpr uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }
constexpr uint32_t High(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

PhiloxKey KeyOf(uint64_t bits) { return {Low(bits), High(bits)}; }

// The four words of an index in a stream.
PhiloxCounter StreamWords(uint64_t seed, uint64_t stream, uint64_t index) {
  return Philox4x32({Low(index), High(index), Low(stream), High(stream)},
                    KeyOf(seed ^ kStreamDomain));
}

constexpr uint64_t Join64(uint32_t low, uint32_t high) { return (uint64_t{high} << 32) | low; }

constexpr uint64_t kPairs = 64;  // computed at a time

// Equals static_cast, for which AVX2 has no instruction. REQUIRES: value <= 2^53.
SPILLWAY_ALWAYS_INLINE double ToDouble(uint64_t value) {
  constexpr uint64_t kTwo52 = 0x4330000000000000;  // the bits of 2^52, whose last stands for 1
  const double high = std::bit_cast<double>((value >> 32) | kTwo52) - 0x1p52;
  const double low = std::bit_cast<double>((value & 0xffffffff) | kTwo52) - 0x1p52;
  return high * 0x1p32 + low;
}

// log(x) for 2^-64 <= x <= 1: x = m * 2^e with m in [sqrt(1/2), sqrt(2)), and
// log(m) = 2 artanh((m - 1) / (m + 1)), whose series ends below 2^-56 here.
SPILLWAY_ALWAYS_INLINE double Log(double x) {
  constexpr double kLn2 = 0.693147180559945309417232;
  constexpr uint64_t kSqrtHalfBits = 0x3fe6a09e667f3bcd, kBias = 64;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint64_t biased_exponent = (bits - kSqrtHalfBits + (kBias << 52)) >> 52;
  const double exponent = ToDouble(biased_exponent) - kBias;
  const double m = std::bit_cast<double>(bits - (biased_exponent << 52) + (kBias << 52));
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double series = 0;
#pragma GCC unroll 16
  for (int n = 21; n >= 1; n -= 2) {
    series = series * z + 1.0 / n;
  }
  return exponent * kLn2 + 2 * s * series;
}

// sin and cos of x for |x| <= pi / 4: Taylor's series to below 2^-60.
SPILLWAY_ALWAYS_INLINE double SinNearZero(double x) {
  const double z = -x * x;
  double series = 1;
#pragma GCC unroll 16
  for (int n = 18; n >= 2; n -= 2) {
    series = 1 + series * z / (n * (n + 1));
  }
  return x * series;
}

SPILLWAY_ALWAYS_INLINE double CosNearZero(double x) {
  const double z = -x * x;
  double series = 1;
#pragma GCC unroll 16
  for (int n = 18; n >= 2; n -= 2) {
    series = 1 + series * z / (n * (n - 1));
  }
  return series;
}

// cos and sin of 2 pi * turn / 2^53: the angle is reduced to an eighth of a turn exactly.
SPILLWAY_ALWAYS_INLINE void CosSin(uint64_t turn, double* cos, double* sin) {
  constexpr double kRadians = 6.28318530717958647692528 * 0x1p-53;
  constexpr uint64_t kQuarter = uint64_t{1} << 51;
  const uint64_t quadrant = (turn + kQuarter / 2) / kQuarter;  // nearest quarter, 0..4
  const double rest = ToDouble(turn + kQuarter - quadrant * kQuarter) - kQuarter;
  const double x = rest * kRadians;
  const uint64_t c = std::bit_cast<uint64_t>(CosNearZero(x));
  const uint64_t s = std::bit_cast<uint64_t>(SinNearZero(x));
  // Odd quarters swap sine and cosine; the sign follows from the quarter's half turn.
  const uint64_t other = (c ^ s) & (0 - (quadrant & 1));
  const uint64_t cos_sign = (quadrant + 1) / 2 % 2, sin_sign = quadrant / 2 % 2;
  *cos = std::bit_cast<double>(c ^ other ^ (cos_sign << 63));
  *sin = std::bit_cast<double>(s ^ other ^ (sin_sign << 63));
}

// Values 2 * pair and 2 * pair + 1 of a stream, for kPairs pairs.
struct NormalPairsLoop {
  static SPILLWAY_ALWAYS_INLINE void Run(PhiloxKey key, uint64_t stream, uint64_t first_pair,
                                         double* __restrict first, double* __restrict second) {
#pragma GCC ivdep
    for (uint64_t i = 0; i < kPairs; ++i) {
      const uint64_t pair = first_pair + i;
      uint32_t c0 = Low(pair), c1 = High(pair), c2 = Low(stream), c3 = High(stream);
      PhiloxRounds(c0, c1, c2, c3, key[0], key[1]);
      const double uniform = ToDouble((Join64(c0, c1) >> 11) + 1) * 0x1p-53;  // in (0, 1]
      const double radius = std::sqrt(-2 * Log(uniform));
      double cos, sin;
      CosSin(Join64(c2, c3) >> 11, &cos, &sin);
      first[i] = radius * cos;
      second[i] = radius * sin;
    }
  }
};

// Mixes one half of a Feistel block (the finaliser of MurmurHash3).
uint64_t FeistelRound(uint64_t half, uint64_t key) {
  uint64_t h = half ^ key;
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccd;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53;
  return h ^ (h >> 33);
}

}  // namespace

PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key) {
  PhiloxRounds(counter[0], counter[1], counter[2], counter[3], key[0], key[1]);
  return counter;
}

void FillNormal(uint64_t seed, uint64_t stream, uint64_t first_index, uint64_t count, double mean,
                double std, float* out) {
  double first[kPairs], second[kPairs];
  const uint64_t end = first_index + count;
  for (uint64_t pair = first_index / 2; 2 * pair < end; pair += kPairs) {
    RunOnBestSimdTarget<NormalPairsLoop>(KeyOf(seed ^ kStreamDomain), stream, pair, first, second);
    for (uint64_t i = 0; i < 2 * kPairs; ++i) {
      const uint64_t index = 2 * pair + i;
      if (index < first_index || index >= end) continue;
      const double z = i % 2 == 0 ? first[i / 2] : second[i / 2];
      out[index - first_index] = static_cast<float>(mean + std * z);
    }
  }
}

void FillUniform(uint64_t seed, uint64_t stream, uint64_t first_index, uint64_t count, double low,
                 double high, float* out) {
  for (uint64_t i = 0; i < count; ++i) {
    const double uniform = (RandomBits(seed, stream, first_index + i) >> 11) * 0x1p-53;
    float value = static_cast<float>(low + (high - low) * uniform);
    if (value >= high && low < high) {  // rounded up to the excluded end
      value = std::nextafterf(static_cast<float>(high), static_cast<float>(low));
    }
    out[i] = value;
  }
}

uint64_t RandomBits(uint64_t seed, uint64_t stream, uint64_t index) {
  const PhiloxCounter words = StreamWords(seed, stream, index);
  return Join64(words[0], words[1]);
}

uint64_t Permute(uint64_t index, uint64_t n, uint64_t key) {
  SPILLWAY_CHECK(index < n);
  constexpr int kRounds = 6;
  const int half_bits = (std::bit_width(n - 1) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t round_keys[kRounds];
  for (int round = 0; round < kRounds; ++round) {
    round_keys[round] = FeistelRound(round + 1, key);
  }
  // The network permutes [0, 4^half_bits), which is less than 4 n: a few iterations suffice.
  do {
    uint64_t left = index >> half_bits;
    uint64_t right = index & mask;
    for (uint64_t round_key : round_keys) {
      const uint64_t next = left ^ (FeistelRound(right, round_key) & mask);
      left = right;
      right = next;
    }
    index = (left << half_bits) | right;
  } while (index >= n);
  return index;
}

uint64_t EpochKey(uint64_t seed, uint64_t epoch) {
  const PhiloxCounter words =
      Philox4x32({Low(epoch), High(epoch), 0, 0}, KeyOf(seed ^ kPermuteDomain));
  return Join64(words[0], words[1]);
}

}  // namespace spillway
