// The known name that somebody probably meant.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway {

// The nearest of `known` by edits (insertions, deletions, replacements, swapped neighbours; case,
// '-' against '_' and dashes in front do not count), of which at most two and a third of its
// letters may differ; or else the one of which `name` is some whole words, or which is the last of
// `name`'s words; "" where there is none, or several are as near.
std::string NearestName(absl::string_view name, const std::vector<std::string>& known);

// Whether `name` is `known` but for a slip: a fifth of its letters are wrong, at least one, or it
// is the greater part of it.
bool IsSlipOf(absl::string_view name, absl::string_view known);

// "; did you mean 'X'?" or "".
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& known);

}  // namespace spillway
