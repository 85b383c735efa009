#include "io/checksum.h"

#include <cstring>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "io/checksum_avx2.h"

namespace spillway {
namespace {

// The values are part of the on-disk format. Made with Python's xxhash:
//   seed = xxh3_64_intdigest(struct.pack("<IIQQ", 1, 2, 3, 4))
//   xxh3_64_intdigest(data, seed)
TEST(Checksum, HasTheValuesOnDisk) {
  const std::string text = "spillway";
  EXPECT_EQ(Checksum(text.data(), text.size()), 0x5c34f9025530f8f1);
  EXPECT_EQ(Checksum({.unit = 1, .plane = 2, .tile = 3, .generation = 4}, text.data(), text.size()),
            0xb089b415ff8cd0b6);
  std::string bytes(4099, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 251);
  EXPECT_EQ(
      Checksum({.unit = 1, .plane = 2, .tile = 3, .generation = 4}, bytes.data(), bytes.size()),
      0xd7422626e56abd0e);
}

#if defined(__x86_64__)
// Digest is compiled for any processor.
TEST(Checksum, HasTheSameValueWithAvx2) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor has no AVX2";
  std::string bytes(20000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i % 253);
  for (size_t size = 0; size + 64 < bytes.size(); size += 1 + size / 7) {
    for (size_t begin : {0, 1, 31}) {
      Digest plain;
      plain.Update(bytes.data() + begin, size);
      EXPECT_EQ(ChecksumAvx2(bytes.data() + begin, size, 0), plain.value())
          << size << " bytes from " << begin;
      EXPECT_EQ(Checksum(bytes.data() + begin, size), plain.value());
    }
  }
}
#endif

TEST(Checksum, EveryFieldOfTheIdentityCounts) {
  const std::string bytes(4096, 'x');
  const auto sum = [&](const ChecksumIdentity& identity) {
    return Checksum(identity, bytes.data(), bytes.size());
  };
  std::set<uint64_t> sums;
  for (uint32_t unit = 0; unit < 4; ++unit) {
    for (uint32_t plane = 0; plane < 4; ++plane) {
      for (uint64_t tile = 0; tile < 4; ++tile) {
        for (uint64_t generation = 0; generation < 4; ++generation) {
          sums.insert(sum({unit, plane, tile, generation}));
        }
      }
    }
  }
  EXPECT_EQ(sums.size(), 256);
  sums.insert(sum({.tile = 1ull << 40}));
  sums.insert(sum({.generation = 1ull << 40}));
  EXPECT_EQ(sums.size(), 258);
}

TEST(Checksum, EveryBitOfTheBytesCounts) {
  std::string bytes(1000, 'x');
  const ChecksumIdentity identity = {.unit = 7, .plane = 1, .tile = 9, .generation = 3};
  std::set<uint64_t> sums = {Checksum(identity, bytes.data(), bytes.size())};
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    sums.insert(Checksum(identity, bytes.data(), bytes.size()));
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
  EXPECT_EQ(sums.size(), 8001);
}

}  // namespace
}  // namespace spillway
