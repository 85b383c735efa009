// Characters and words of texts in UTF-8, where Python's str takes them to be: the measures are
// those of Python's packages. Bytes that are no UTF-8 count as U+FFFD each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace spillway {

std::vector<uint32_t> CodePointsOf(absl::string_view text);

// str.isspace: Unicode's white space, and U+001C to U+001F.
bool IsWhiteSpace(uint32_t code_point);

// str.rstrip and str.strip.
absl::string_view WithoutTrailingSpace(absl::string_view text);
absl::string_view WithoutOuterSpace(absl::string_view text);

// str.split: between runs of white space. Views into `text`.
std::vector<absl::string_view> SplitAtWhiteSpace(absl::string_view text);

// Equal words have equal numbers, in all texts that one of these was asked of.
class WordNumbers {
 public:
  std::vector<uint32_t> Of(const std::vector<std::string>& words);

 private:
  absl::flat_hash_map<std::string, uint32_t> numbers_;
};

}  // namespace spillway
