// Pairs of texts, one to be made from the other: translations, summaries, answers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace spillway {

// Where rows have the two. A name of no key is one inside: "translation.en" is what "translation"
// has at "en".
struct PairKeys {
  std::string source = "prompt", target = "completion";
  std::string source_prefix = {};  // goes before each source
};

struct TextPairRow {
  std::string source;  // with its prefix
  std::optional<std::string> target;
  int64_t line = 0;
};

// Calls `take` for each row, as ReadRows (engine/data/text_rows.h); kInvalidArgument,
// "FILE:LINE: ...", for rows without these keys, and for texts as of TextOf, too. `needs_target`: a
// row without one is an error; otherwise what is there is taken if it is a string, even an empty
// one.
absl::Status ReadTextPairs(const std::string& path, const PairKeys& keys, bool needs_target,
                           const std::function<absl::Status(const TextPairRow&)>& take);

}  // namespace spillway
