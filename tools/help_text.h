// CLI11's help pages, folded for a terminal of 80 columns.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

// Folds lines of more than 80 columns at spaces. What follows goes under the description of an
// option, under the line's own beginning, or, for a command line, behind a backslash.
std::string FoldHelp(absl::string_view help);

}  // namespace spillway
