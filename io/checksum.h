// The checksum that verifies data read back from storage.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway {

// Identity of the data, folded into its checksum, so that the right bytes in the wrong place, or an
// older version in the right place, do not match.
struct ChecksumIdentity {
  uint32_t unit = 0;
  uint32_t plane = 0;
  uint64_t tile = 0;
  uint64_t generation = 0;
};

// XXH3-64 of the bytes, seeded with the identity. Any thread.
uint64_t Checksum(const ChecksumIdentity& identity, const void* data, size_t size_bytes);

// XXH3-64 without an identity: digests, headers, configuration.
uint64_t Checksum(const void* data, size_t size_bytes);

// The checksum without an identity, computed incrementally. One thread.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void Update(const void* data, size_t size_bytes);
  uint64_t value() const;

 private:
  void* state_;  // xxHash state
};

}  // namespace spillway
