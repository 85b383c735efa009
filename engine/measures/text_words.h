// Characters and words of UTF-8 texts, as Python's str defines them: the measures are those of
// Python's packages. Each invalid byte counts as U+FFFD.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace spillway {

std::vector<uint32_t> CodePointsOf(absl::string_view text);

// str.isspace: Unicode white space, and U+001C to U+001F.
bool IsWhiteSpace(uint32_t code_point);

// str.rstrip and str.strip.
absl::string_view WithoutTrailingSpace(absl::string_view text);
absl::string_view WithoutOuterSpace(absl::string_view text);

// str.split: the parts between runs of white space. Views into `text`.
std::vector<absl::string_view> SplitAtWhiteSpace(absl::string_view text);

// Numbers words: equal words of all texts have equal numbers.
class WordNumbers {
 public:
  std::vector<uint32_t> Of(const std::vector<std::string>& words);

 private:
  absl::flat_hash_map<std::string, uint32_t> numbers_;
};

}  // namespace spillway
