// spillway man: manual pages, made from the same texts as --help.
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "io/base/status.h"
#include "tools/build_info.h"
#include "tools/command_flags.h"
#include "tools/commands.h"

namespace spillway {
namespace {

// Text as roff shows it.
std::string Roff(absl::string_view text) {
  std::string out = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"'", "\\(aq"}});
  if (absl::StartsWith(out, ".")) out.insert(0, "\\&");
  return out;
}

std::string FlagEntry(const CommandFlag& flag) {
  std::string names;
  for (const std::string& name : flag.names) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", flag.positional ? "\\fI" : "\\fB",
                    Roff(flag.positional ? absl::AsciiStrToUpper(name) : name), "\\fR");
  }
  if (!flag.type.empty() && !flag.positional) {
    // Choices may go on in the next line.
    absl::StrAppend(&names, " \\fI", absl::StrReplaceAll(Roff(flag.type), {{"|", "|\\:"}}), "\\fR");
  }
  const std::string help = absl::StrCat(flag.required ? "(required) " : "", flag.help);
  return absl::StrCat(".TP\n", names, "\n", help.empty() ? "\\&" : Roff(help), "\n");
}

// A footer: sentences, and examples, whose lines are indented.
std::string FooterText(absl::string_view footer) {
  std::string text;
  bool example = false;
  for (const absl::string_view line : absl::StrSplit(footer, '\n')) {
    const bool indented = absl::StartsWith(line, " ");
    if (indented != example) absl::StrAppend(&text, indented ? ".PP\n.nf\n" : ".fi\n.PP\n");
    example = indented;
    const absl::string_view bare = absl::StripAsciiWhitespace(line);
    absl::StrAppend(&text, bare.empty() ? ".PP" : Roff(bare), "\n");
  }
  return example ? text + ".fi\n" : text;
}

std::string ManPage(const CLI::App& command) {
  const std::string name = absl::StrReplaceAll(FullCommandName(command), {{" ", "-"}});
  const CLI::App* top = &command;
  while (top->get_parent() != nullptr) top = top->get_parent();
  std::string page =
      absl::StrCat(".TH ", Roff(absl::AsciiStrToUpper(name)), " 1 \"\" \"spillway ",
                   ThisRunOrigin().version, "\" \"Spillway\"\n.nh\n.ad l\n.SH NAME\n", Roff(name),
                   " \\- ", Roff(absl::AsciiStrToLower(command.get_description().substr(0, 1))),
                   Roff(command.get_description().substr(1)), "\n.SH SYNOPSIS\n.B ",
                   Roff(FullCommandName(command)), "\n[\\fIflags\\fR]\n");
  const auto commands = command.get_subcommands([](const CLI::App*) { return true; });
  if (!commands.empty()) absl::StrAppend(&page, ".SH SUBCOMMANDS\n");
  for (const CLI::App* each : commands) {
    absl::StrAppend(&page, ".TP\n\\fB", Roff(each->get_name()), "\\fR\n",
                    Roff(each->get_description()), "\n");
  }
  absl::StrAppend(&page, ".SH FLAGS\n");
  const std::vector<CommandFlagGroup> groups = CommandFlagGroups(command);
  for (const CommandFlagGroup& group : groups) {
    if (groups.size() > 1) absl::StrAppend(&page, ".SS ", Roff(group.title), "\n");
    for (const CommandFlag& flag : group.flags) absl::StrAppend(&page, FlagEntry(flag));
  }
  if (!command.get_footer().empty()) {
    absl::StrAppend(&page, ".SH NOTES\n", FooterText(command.get_footer()));
  }
  if (&command != top) {
    absl::StrAppend(&page, ".SH EXIT STATUS\n", FooterText(top->get_footer()),
                    ".SH SEE ALSO\n.BR spillway (1)\n");
  }
  return page;
}

absl::Status PrintManPage(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    const CLI::App* const inner = FindSubcommand(*command, word);
    if (inner == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "man ", word, ": there are ", absl::StrJoin(SubcommandNames(*command), ", ")));
    }
    command = inner;
  }
  std::fputs(ManPage(*command).c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

void AddManCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command = app.add_subcommand("man", "Print a manual page, for man -l or a package");
  auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("subcommand", *words, "whose page it is (spillway's own)");
  command->footer("Example:\n  spillway man train | man -l -");
  command->callback([run, words, &app] {
    *run = [words, &app] { return CommandOutcome{PrintManPage(app, *words)}; };
  });
}

}  // namespace spillway
