#pragma once

#include <cstddef>
#include <initializer_list>

#include "absl/strings/string_view.h"
#include "io/base/check.h"

namespace spillway {

// The name of a value of an enum that counts from 0. `names` are literals for all of its values, in
// order.
template <typename Enum>
absl::string_view EnumName(Enum value, std::initializer_list<absl::string_view> names) {
  SPILLWAY_CHECK(static_cast<size_t>(value) < names.size());
  return names.begin()[static_cast<size_t>(value)];
}

}  // namespace spillway
