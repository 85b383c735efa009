#include "engine/base/keyed_hash.h"

#include <sys/random.h>

#include <array>
#include <bit>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/unique_fd.h"

namespace spillway {
namespace {

constexpr size_t kHashBlock = 64;

// The leading 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using HashState = std::array<uint32_t, 8>;

void HashBlock(const char* block, HashState* state) {
  std::array<uint32_t, 64> words;
  for (size_t i = 0; i < 16; ++i) {
    words[i] = 0;
    for (size_t byte = 0; byte < 4; ++byte) {
      words[i] = words[i] << 8 | static_cast<unsigned char>(block[4 * i + byte]);
    }
  }
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t a = words[i - 15], b = words[i - 2];
    words[i] = words[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + words[i - 7] +
               (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = *state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                           ((e & f) ^ (~e & g)) + kRoundConstants[i] + words[i];
    const uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const HashState added = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state->size(); ++i) (*state)[i] += added[i];
}

}  // namespace

std::string Sha256(absl::string_view text) {
  // A one bit, zeros, and the length in bits fill the last block.
  std::string padded(text);
  padded.push_back('\x80');
  while (padded.size() % kHashBlock != kHashBlock - 8) padded.push_back('\0');
  const uint64_t bits = 8 * static_cast<uint64_t>(text.size());
  for (int shift = 56; shift >= 0; shift -= 8) padded.push_back(static_cast<char>(bits >> shift));
  HashState state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  for (size_t at = 0; at < padded.size(); at += kHashBlock) HashBlock(padded.data() + at, &state);
  std::string digest;
  for (const uint32_t word : state) {
    for (int shift = 24; shift >= 0; shift -= 8) digest.push_back(static_cast<char>(word >> shift));
  }
  return digest;
}

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  std::string inner = key.size() > kHashBlock ? Sha256(key) : std::string(key);
  inner.resize(kHashBlock, '\0');
  std::string outer = inner;
  for (char& byte : inner) byte ^= 0x36;
  for (char& byte : outer) byte ^= 0x5c;
  return Sha256(outer + Sha256(absl::StrCat(inner, text)));
}

bool SameSecretBytes(absl::string_view one, absl::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned char differs = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    differs = static_cast<unsigned char>(differs | (one[i] ^ other[i]));
  }
  return differs == 0;
}

std::string UnforeseeableBytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t at = 0; at < count;) {
    const ssize_t got = RetryOnSignal([&] { return getrandom(&bytes[at], count - at, 0); });
    SPILLWAY_CHECK(got > 0);  // every kernel that io_uring's headers know has it
    at += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace spillway
