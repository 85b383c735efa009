// What the fuzz programs share. A target reads the input, and checks of every value that its
// reader accepts what the rest of the program relies on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "io/base/check.h"

namespace spillway {

inline absl::string_view Text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A refusal has one of these codes, which decide the exit code, and a message that is text.
inline void Expect(const absl::Status& status, std::initializer_list<absl::StatusCode> codes) {
  SPILLWAY_CHECK(std::count(codes.begin(), codes.end(), status.code()) == 1);
  SPILLWAY_CHECK(!status.message().empty());
}

}  // namespace spillway
