#include "io/checksum.h"

#include <xxhash.h>

#include <cstring>

#include "io/checksum_avx2.h"

namespace spillway {
namespace {

// The seed is XXH3-64 of the identity's 24 bytes (unit, plane, tile,
// generation, little-endian, no padding), so that every field reaches every
// bit: a plain sum or xor would let tile 1 of generation 2 stand in for
// tile 2 of generation 1.
uint64_t Seed(const ChecksumIdentity& identity) {
  unsigned char bytes[24];
  std::memcpy(bytes, &identity.unit, 4);
  std::memcpy(bytes + 4, &identity.plane, 4);
  std::memcpy(bytes + 8, &identity.tile, 8);
  std::memcpy(bytes + 16, &identity.generation, 8);
  return XXH3_64bits(bytes, sizeof(bytes));
}

uint64_t ChecksumWithSeed(const void* data, size_t size_bytes, uint64_t seed) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return ChecksumAvx2(data, size_bytes, seed);
#endif
  return XXH3_64bits_withSeed(data, size_bytes, seed);
}

}  // namespace

uint64_t Checksum(const ChecksumIdentity& identity, const void* data, size_t size_bytes) {
  return ChecksumWithSeed(data, size_bytes, Seed(identity));
}

uint64_t Checksum(const void* data, size_t size_bytes) {
  return ChecksumWithSeed(data, size_bytes, 0);
}

}  // namespace spillway

namespace spillway {

Digest::Digest() : state_(XXH3_createState()) {
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
}

Digest::~Digest() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }

void Digest::Update(const void* data, size_t size_bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), data, size_bytes);
}

uint64_t Digest::value() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_));
}

}  // namespace spillway
