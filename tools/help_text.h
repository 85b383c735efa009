// Help pages, for a terminal of 80 columns.
#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/string_view.h"

namespace spillway {

enum class HelpKind {
  kUsual,  // for a command with groups: its usual flags, and the names of the groups
  kAll,
};
std::string HelpPage(const CLI::App& command, HelpKind kind);

// The groups of flags with `word` in their title, in any case; "" if there is none.
std::string HelpOfGroups(const CLI::App& command, absl::string_view word);

}  // namespace spillway
