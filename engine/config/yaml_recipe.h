// A YAML file given where DeepSpeed's JSON is read: what its keys would be as flags.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

// Whether `path` and `text` are a YAML file's: by its name, or by a first line that is "key:
// value".
bool LooksLikeYaml(absl::string_view path, absl::string_view text);

// The rest of an error: keys at the top level (axolotl's, LLaMA-Factory's, TRL's) as flags of
// train, those that have no effect, and those that are in the way. What is inside blocks is not
// read.
std::string YamlAsFlags(absl::string_view text);

}  // namespace spillway
