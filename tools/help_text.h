// Help pages, for a terminal of 80 columns.
#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/string_view.h"

namespace spillway {

enum class HelpKind {
  kUsual,  // of a command with groups of flags the usual ones, and the names of the groups
  kAll,
};
std::string HelpPage(const CLI::App& command, HelpKind kind);

// The groups of flags with `word` in their title, in any case; "" where there is none.
std::string HelpOfGroups(const CLI::App& command, absl::string_view word);

}  // namespace spillway
