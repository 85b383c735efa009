// A command's flags in the form that help, man pages and completion use.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/string_view.h"
#include "engine/config/other_flags.h"

namespace spillway {

struct CommandFlag {
  std::vector<std::string> names;  // "--model"; the name of a positional argument
  std::string type;                // "DIR", "bf16|fp16"; "" for a switch
  std::string help;
  bool positional = false;  // given without a flag
  bool required = false;
  bool usual = false;  // in the short help of a command with groups
};

struct CommandFlagGroup {
  std::string title;
  std::vector<CommandFlag> flags;
};

// The title of flags without a group.
inline constexpr char kPlainFlags[] = "Flags";

// The visible flags, in order, with the plain ones last.
std::vector<CommandFlagGroup> CommandFlagGroups(const CLI::App& command);

// Returns "spillway bench adam".
std::string FullCommandName(const CLI::App& command);
std::vector<std::string> SubcommandNames(const CLI::App& command);
// Null if there is no subcommand of this name.
const CLI::App* FindSubcommand(const CLI::App& command, absl::string_view name);

// The words that can follow a flag of this type.
struct ValueKind {
  std::vector<std::string> words;  // "bf16"
  bool files = false, directories = false;
};
ValueKind KindOfType(absl::string_view type);

// The command's flags for TranslateWords (engine/config/other_flags.h).
OwnFlags OwnFlagsOf(const CLI::App& command);

}  // namespace spillway
