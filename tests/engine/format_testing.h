// Files and statuses for the tests of formats.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/io_testing.h"

namespace spillway {

inline void WriteFile(const std::string& path, absl::string_view content) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(content.data(), static_cast<std::streamsize>(content.size()));
  ASSERT_TRUE(stream.good()) << path;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream.good()) << path;
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// The status has this code and all of these in its message.
inline void ExpectError(const absl::Status& status, absl::StatusCode code,
                        const std::vector<std::string>& parts) {
  EXPECT_EQ(status.code(), code) << status;
  for (const std::string& part : parts) {
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(part));
  }
}

}  // namespace spillway
