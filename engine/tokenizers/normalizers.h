// The normalizers of a tokenizer.json.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizers/json_part.h"
#include "engine/tokenizers/rewrite_stage.h"

namespace spillway {

// `normalizer` with all its parts, in order; null has none. kUnimplemented names what is not
// supported, kInvalidArgument what is broken.
absl::StatusOr<std::vector<Rewrite>> ReadNormalizers(const JsonPart& normalizer);

// Of a Replace or Split: {"String": ...} or {"Regex": ...} as a regular expression for
// SplitPattern::Compile, which accepts it.
absl::StatusOr<std::string> ReadPattern(const JsonPart& part);

// A Replace, which is a decoder too.
absl::StatusOr<Rewrite> ReadReplace(const JsonPart& part);

}  // namespace spillway
