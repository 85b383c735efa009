#include "tools/help_text.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/command_flags.h"

namespace spillway {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kHelpColumn = 28;  // column of descriptions

// Wraps a line at spaces; further lines are indented by `hang`, and in a command line preceded by a
// backslash.
std::string Fold(std::string line, size_t hang, bool command = false) {
  std::string out;
  const size_t width = command ? kColumns - 2 : kColumns;
  size_t least = hang;  // no break before it
  while (line.size() > kColumns) {
    size_t at = line.rfind(' ', width);
    if (at == std::string::npos || at <= least) break;  // one long word
    // A flag stays in one line with its value.
    const size_t before = line.rfind(' ', at - 1);
    if (command && before != std::string::npos && before > least && line[before + 1] == '-') {
      at = before;
    }
    absl::StrAppend(&out, absl::StripTrailingAsciiWhitespace(line.substr(0, at)),
                    command ? " \\\n" : "\n");
    line = std::string(hang, ' ') + line.substr(at + 1);
  }
  return out + line;
}

std::string FoldText(absl::string_view text) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t indent = line.size() - absl::StripLeadingAsciiWhitespace(line).size();
    const bool command = absl::StartsWith(line.substr(indent), "spillway ");
    lines.push_back(Fold(std::string(line), command ? indent + 4 : indent, command));
  }
  return absl::StrJoin(lines, "\n");
}

// Returns "  --lr NUMBER               learning rate (5e-5)".
std::string Described(std::string left, const std::string& help) {
  left = "  " + left;
  if (left.size() + 2 > kHelpColumn) {
    // Long lists of choices continue in lines of their own.
    std::string folded;
    while (left.size() > kColumns) {
      const size_t at = left.rfind('|', kColumns - 1);
      if (at == std::string::npos) break;
      absl::StrAppend(&folded, left.substr(0, at + 1), "\n");
      left = std::string(6, ' ') + left.substr(at + 1);
    }
    if (help.empty()) return absl::StrCat(folded, left, "\n");
    return absl::StrCat(folded, left, "\n", Fold(std::string(kHelpColumn, ' ') + help, kHelpColumn),
                        "\n");
  }
  left.resize(kHelpColumn, ' ');
  return absl::StrCat(absl::StripTrailingAsciiWhitespace(Fold(left + help, kHelpColumn)), "\n");
}

std::string FlagLines(const CommandFlag& flag) {
  const std::string left =
      absl::StrCat(absl::StrJoin(flag.names, ", "), flag.type.empty() || flag.positional ? "" : " ",
                   flag.positional ? "" : flag.type);
  const std::string mark = flag.required ? "(required) " : "";
  return Described(left, absl::StrCat(mark, flag.help));
}

std::string GroupText(const CommandFlagGroup& group) {
  std::string text = absl::StrCat(group.title, ":\n");
  for (const CommandFlag& flag : group.flags) absl::StrAppend(&text, FlagLines(flag));
  return text;
}

std::string UsageLine(const CLI::App& command, const std::vector<CommandFlagGroup>& groups) {
  std::string flags, words;
  for (const CommandFlagGroup& group : groups) {
    for (const CommandFlag& flag : group.flags) {
      if (flag.positional) {
        absl::StrAppend(&words, " ", absl::AsciiStrToUpper(flag.names[0]));
      } else if (flag.required) {
        absl::StrAppend(&flags, " ", flag.names.back(), " ", flag.type);
      }
    }
  }
  const bool has_commands = !SubcommandNames(command).empty();
  return FoldText(absl::StrCat("Usage: ", FullCommandName(command), words, flags,
                               has_commands ? " COMMAND" : "", " [flags]"));
}

// The list of groups in the short help.
std::string UsualFlags(const CLI::App& command, const std::vector<CommandFlagGroup>& groups) {
  CommandFlagGroup usual = {"The usual flags", {}};
  std::vector<std::string> titles;
  for (const CommandFlagGroup& group : groups) {
    if (group.title == kPlainFlags) continue;
    titles.push_back(group.title);
    for (const CommandFlag& flag : group.flags) {
      if (flag.usual) usual.flags.push_back(flag);
    }
  }
  if (usual.flags.empty()) return "And all of train's flags: spillway train --help-all\n";
  const std::string name = FullCommandName(command);
  return absl::StrCat(GroupText(usual), "\nGroups of flags:\n  ", absl::StrJoin(titles, "\n  "),
                      "\n\n  ", name, " --help-all\n", std::string(kHelpColumn, ' '),
                      "shows them all\n  spillway help ", command.get_name(), " optimizer\n",
                      std::string(kHelpColumn, ' '), "shows those with this word in the title\n");
}

}  // namespace

std::string HelpPage(const CLI::App& command, HelpKind kind) {
  const std::vector<CommandFlagGroup> groups = CommandFlagGroups(command);
  std::vector<std::string> parts = {
      absl::StrCat(FoldText(command.get_description()), "\n\n", UsageLine(command, groups), "\n")};
  const auto commands = command.get_subcommands([](const CLI::App*) { return true; });
  if (!commands.empty()) {
    std::string text = "Subcommands:\n";
    for (const CLI::App* each : commands) {
      absl::StrAppend(&text, Described(each->get_name(), each->get_description()));
    }
    parts.push_back(std::move(text));
  }
  if (kind == HelpKind::kUsual && groups.size() > 1) {
    const std::string usual = UsualFlags(command, groups);
    // A command with few flags of its own shows these first.
    const bool own_first = !absl::StartsWith(usual, "The ");
    if (!own_first) parts.push_back(usual);
    parts.push_back(GroupText(groups.back()));
    if (own_first) parts.push_back(usual);
  } else {
    for (const CommandFlagGroup& group : groups) parts.push_back(GroupText(group));
  }
  if (!command.get_footer().empty()) parts.push_back(FoldText(command.get_footer()) + "\n");
  return absl::StrJoin(parts, "\n");
}

std::string HelpOfGroups(const CLI::App& command, absl::string_view word) {
  std::vector<std::string> parts;
  for (const CommandFlagGroup& group : CommandFlagGroups(command)) {
    if (!absl::StrContains(absl::AsciiStrToLower(group.title), absl::AsciiStrToLower(word)))
      continue;
    parts.push_back(GroupText(group));
  }
  return absl::StrJoin(parts, "\n");
}

}  // namespace spillway
