// The normalizers of a tokenizer.json.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizers/json_part.h"
#include "engine/tokenizers/rewrite_stage.h"

namespace spillway {

// The rewrites of `normalizer` with all its parts, in order; none for null. kUnimplemented names an
// unsupported part, kInvalidArgument a broken one.
absl::StatusOr<std::vector<Rewrite>> ReadNormalizers(const JsonPart& normalizer);

// The pattern of a Replace or Split, {"String": ...} or {"Regex": ...}, as a regular expression
// that SplitPattern::Compile accepts.
absl::StatusOr<std::string> ReadPattern(const JsonPart& part);

// The rewrite of a Replace, which is a decoder, too.
absl::StatusOr<Rewrite> ReadReplace(const JsonPart& part);

}  // namespace spillway
