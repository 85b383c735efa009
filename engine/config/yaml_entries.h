// A YAML file's keys at the top level, with their lines.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace spillway {

struct YamlEntry {
  std::string key;
  int line = 0;  // from 1
  // Null, a scalar as it is written (a string), an array, or an object, in which scalars without
  // quotes that are JSON have its type.
  nlohmann::json value;
};

// Whether `path` and `text` are a YAML file's: by its name, or by a first line that is "key:
// value".
bool LooksLikeYaml(absl::string_view path, absl::string_view text);

// kInvalidArgument, "FILE:LINE: ...", for what is not YAML, is not one map, has a key twice,
// aliases or tags, is nested deeper than 16, or is not UTF-8. REQUIRES: `text` is of moderate size.
absl::StatusOr<std::vector<YamlEntry>> ParseYamlEntries(absl::string_view text,
                                                        absl::string_view file);

}  // namespace spillway
