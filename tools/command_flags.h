// What a command's flags look like to a reader: help, man pages and completion come from this.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/string_view.h"
#include "engine/config/other_flags.h"

namespace spillway {

struct CommandFlag {
  std::vector<std::string> names;  // "--model"; the name of what stands without a flag
  std::string type;                // "DIR", "bf16|fp16"; "" of a switch
  std::string help;
  bool positional = false;  // stands without a flag
  bool required = false;
  bool usual = false;  // in the short help of a command with groups
};

struct CommandFlagGroup {
  std::string title;
  std::vector<CommandFlag> flags;
};

// The title of flags that are in no group of their own.
inline constexpr char kPlainFlags[] = "Flags";

// Those that are shown, in their order, with the plain ones last.
std::vector<CommandFlagGroup> CommandFlagGroups(const CLI::App& command);

// "spillway bench adam".
std::string FullCommandName(const CLI::App& command);
std::vector<std::string> SubcommandNames(const CLI::App& command);
// Null where it has none of this name.
const CLI::App* FindSubcommand(const CLI::App& command, absl::string_view name);

// The words that can follow a flag of this type.
struct ValueKind {
  std::vector<std::string> words;  // "bf16"
  bool files = false, directories = false;
};
ValueKind KindOfType(absl::string_view type);

// For TranslateWords (engine/config/other_flags.h).
OwnFlags OwnFlagsOf(const CLI::App& command);

}  // namespace spillway
