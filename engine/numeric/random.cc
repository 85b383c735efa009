#include "engine/numeric/random.h"

#include <bit>
#include <cmath>

#include "engine/numeric/philox.h"
#include "io/base/check.h"

namespace spillway {
namespace {

// Keeps streams of different purpose apart under one seed.
constexpr uint64_t kStreamDomain = 0x53747265616d0001;   // "Stream"
constexpr uint64_t kPermuteDomain = 0x5065726d75740002;  // "Permut"

constexpr uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }
constexpr uint32_t High(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

PhiloxKey KeyOf(uint64_t bits) { return {Low(bits), High(bits)}; }

// The four words that belong to one index of a stream.
PhiloxCounter StreamWords(uint64_t seed, uint64_t stream, uint64_t index) {
  return Philox4x32({Low(index), High(index), Low(stream), High(stream)},
                    KeyOf(seed ^ kStreamDomain));
}

constexpr uint64_t Join64(uint32_t low, uint32_t high) { return (uint64_t{high} << 32) | low; }

// log(x) for normal x > 0: x = m * 2^e with m in [sqrt(1/2), sqrt(2)), and
// log(m) = 2 artanh((m - 1) / (m + 1)), whose series ends below 2^-56 here.
double Log(double x) {
  constexpr double kLn2 = 0.693147180559945309417232;
  constexpr uint64_t kSqrtHalfBits = 0x3fe6a09e667f3bcd;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const int64_t exponent = static_cast<int64_t>(bits - kSqrtHalfBits) >> 52;
  const double m = std::bit_cast<double>(bits - (static_cast<uint64_t>(exponent) << 52));
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double series = 0;
  for (int n = 21; n >= 1; n -= 2) {
    series = series * z + 1.0 / n;
  }
  return static_cast<double>(exponent) * kLn2 + 2 * s * series;
}

// sin and cos of x for |x| <= pi / 4: Taylor's series to below 2^-60.
double SinNearZero(double x) {
  const double z = -x * x;
  double series = 1;
  for (int n = 18; n >= 2; n -= 2) {
    series = 1 + series * z / (n * (n + 1));
  }
  return x * series;
}

double CosNearZero(double x) {
  const double z = -x * x;
  double series = 1;
  for (int n = 18; n >= 2; n -= 2) {
    series = 1 + series * z / (n * (n - 1));
  }
  return series;
}

// cos and sin of 2 pi * turn / 2^53: the angle is reduced to an eighth of a turn exactly.
void CosSin(uint64_t turn, double* cos, double* sin) {
  constexpr double kRadians = 6.28318530717958647692528 * 0x1p-53;
  constexpr uint64_t kQuarter = uint64_t{1} << 51;
  const uint64_t quadrant = (turn + kQuarter / 2) / kQuarter;  // nearest quarter, 0..4
  const int64_t rest = static_cast<int64_t>(turn - quadrant * kQuarter);
  const double x = static_cast<double>(rest) * kRadians;
  const double c = CosNearZero(x);
  const double s = SinNearZero(x);
  switch (quadrant % 4) {
    case 0:
      *cos = c, *sin = s;
      return;
    case 1:
      *cos = -s, *sin = c;
      return;
    case 2:
      *cos = -c, *sin = -s;
      return;
    default:
      *cos = s, *sin = -c;
      return;
  }
}

// Values 2 * pair and 2 * pair + 1 of a stream.
void NormalPair(uint64_t seed, uint64_t stream, uint64_t pair, double* first, double* second) {
  const PhiloxCounter words = StreamWords(seed, stream, pair);
  const uint64_t radius_bits = Join64(words[0], words[1]) >> 11;
  const uint64_t angle_bits = Join64(words[2], words[3]) >> 11;
  const double uniform = static_cast<double>(radius_bits + 1) * 0x1p-53;  // in (0, 1]
  const double radius = std::sqrt(-2 * Log(uniform));
  double cos, sin;
  CosSin(angle_bits, &cos, &sin);
  *first = radius * cos;
  *second = radius * sin;
}

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
  const auto scaled = [&](double z) { return static_cast<float>(mean + std * z); };
  double first, second;
  uint64_t i = 0;
  if (first_index % 2 == 1 && count > 0) {
    NormalPair(seed, stream, first_index / 2, &first, &second);
    out[i++] = scaled(second);
  }
  for (; i + 2 <= count; i += 2) {
    NormalPair(seed, stream, (first_index + i) / 2, &first, &second);
    out[i] = scaled(first);
    out[i + 1] = scaled(second);
  }
  if (i < count) {
    NormalPair(seed, stream, (first_index + i) / 2, &first, &second);
    out[i] = scaled(first);
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
  // The network permutes [0, 4^half_bits), less than 4 n: a few turns are enough.
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
