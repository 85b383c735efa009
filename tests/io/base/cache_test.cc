#include "io/base/cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace spillway {
namespace {

// That it has left the caches nobody can see but by the clock.
TEST(Cache, WhatIsPutOutStaysWhatItIs) {
  std::vector<char> data(10000);
  for (const size_t begin : {0, 1, 63, 64, 5000}) {
    for (const size_t bytes : {0, 1, 64, 4999}) {
      std::memset(data.data(), static_cast<int>(begin + bytes), data.size());
      EvictFromCaches(data.data() + begin, bytes);
      for (const char c : data) ASSERT_EQ(c, static_cast<char>(begin + bytes));
    }
  }
  EvictFromCaches(nullptr, 0);
}

}  // namespace
}  // namespace spillway
