// A value of a DeepSpeed file, with where it stands there.
#pragma once

#include <optional>
#include <string>

namespace spillway {

// A key of the file: absent (no `where`), "auto" (no value), or a value.
template <typename T>
struct Setting {
  std::optional<T> value;
  std::string key;    // "optimizer.params.lr"
  std::string where;  // "FILE:LINE"

  bool given() const { return !where.empty(); }
  bool is_auto() const { return given() && !value.has_value(); }
};

}  // namespace spillway
