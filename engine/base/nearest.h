// Suggests the known name that a misspelt one probably means.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway {

// The nearest of `known` by edit distance (insertions, deletions, replacements, swapped neighbours;
// case, '-' against '_' and leading dashes do not count), with at most two edits and a third of its
// letters. Otherwise the one of which `name` is some whole words, or which is the last of `name`'s
// words. "" if there is none, or a tie.
std::string NearestName(absl::string_view name, const std::vector<std::string>& known);

// Whether `name` is a misspelling of `known`: at most one letter or a fifth of them are wrong, or
// it is the greater part of `known`.
bool IsSlipOf(absl::string_view name, absl::string_view known);

// "; did you mean 'X'?" or "".
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& known);

}  // namespace spillway
