// Reads pairs of a source and a target text: translations, summaries, answers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace spillway {

// The keys of source and target. A name that is no key is a path: "translation.en" is the member
// "en" of "translation".
struct PairKeys {
  std::string source = "prompt", target = "completion";
  std::string source_prefix = {};  // put before each source
};

struct TextPairRow {
  std::string source;  // with its prefix
  std::optional<std::string> target;
  int64_t line = 0;
};

// Calls `take` for each row, like ReadRows (engine/data/text_rows.h); kInvalidArgument, "FILE:LINE:
// ...", for rows without these keys, and for texts as in TextOf. `needs_target`: a row without one
// is an error; otherwise a target is taken if it is a string, even an empty one.
absl::Status ReadTextPairs(const std::string& path, const PairKeys& keys, bool needs_target,
                           const std::function<absl::Status(const TextPairRow&)>& take);

}  // namespace spillway
