// The known name that somebody probably meant.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway {

// The nearest of `known` by edits (insertions, deletions, replacements, swapped neighbours; case,
// '-' against '_' and dashes in front do not count), or else one that `name` is a part of, or the
// longest that it begins with, or that its last words are; "" where there is none.
std::string NearestName(absl::string_view name, const std::vector<std::string>& known);

// Whether `name` is `known` but for a slip: a fifth of its letters are wrong, at least one, or it
// is the greater part of it.
bool IsSlipOf(absl::string_view name, absl::string_view known);

// "; did you mean 'X'?" or "".
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& known);

}  // namespace spillway
