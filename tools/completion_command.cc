// spillway completion: scripts for shells, made from the commands themselves.
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/base/flag_value.h"
#include "io/base/status.h"
#include "tools/command_flags.h"
#include "tools/commands.h"

namespace spillway {
namespace {

// `visit` for `app` and all commands below it.
void EachCommand(const CLI::App& app, const std::function<void(const CLI::App&)>& visit) {
  visit(app);
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    EachCommand(*each, visit);
  }
}

std::vector<CommandFlag> FlagsOf(const CLI::App& command) {
  std::vector<CommandFlag> flags;
  for (const CommandFlagGroup& group : CommandFlagGroups(command)) {
    flags.insert(flags.end(), group.flags.begin(), group.flags.end());
  }
  return flags;
}

// bash: what stands before the cursor says what may follow.
constexpr char kBashHead[] =
    R"(# bash completion of spillway: `spillway completion bash` prints this.
_spillway() {
  local word command= previous=
  local current=${COMP_WORDS[COMP_CWORD]} index=1
  # The subcommands at the start of the line.
  while ((index < COMP_CWORD)); do
    word=${COMP_WORDS[index]}
    case "$command $word" in
@COMMANDS@
      *) break ;;
    esac
    ((index++))
  done
  previous=${COMP_WORDS[COMP_CWORD-1]}
  # --flag=value is three words here.
  if [[ $current == '=' ]]; then
    current=
  elif [[ $previous == '=' ]]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
  # A flag that takes several files goes on until the next.
  local back=$((COMP_CWORD - 1))
  while [[ $previous != -* ]] && ((back > index)); do
    ((back--))
    case "$command ${COMP_WORDS[back]}" in
@SEVERAL@
      *) [[ ${COMP_WORDS[back]} == -* ]] && break ;;
    esac
  done
  COMPREPLY=()
  local words= kind=
  case "$command $previous" in
@VALUES@
  esac
  case $kind in
    none) return ;;
    *files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    *directories) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
  esac
  if [[ -n $kind ]]; then
    COMPREPLY+=($(compgen -W "$words" -- "$current"))
    return
  fi
  case "$command" in
@FLAGS@
  esac
  if [[ $current != -* && $words == *'FILES'* ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    return
  fi
  COMPREPLY=($(compgen -W "${words/FILES/}" -- "$current"))
}
complete -F _spillway spillway
)";

std::string BashScript(const CLI::App& app) {
  std::string commands, flags, several;
  std::map<std::string, std::string> values;  // what is shown: the flags with it
  EachCommand(app, [&](const CLI::App& command) {
    // "train", "bench adam"; "" of the program itself
    const std::string path =
        &command == &app ? "" : FullCommandName(command).substr(app.get_name().size());
    if (&command != &app) {
      const std::string parent = path.substr(0, path.rfind(' '));
      absl::StrAppend(&commands, "      '", parent, " ", command.get_name(), "') command='", path,
                      "' ;;\n");
    }
    std::vector<std::string> words = SubcommandNames(command);
    for (const CommandFlag& flag : FlagsOf(command)) {
      if (flag.positional) {
        words.push_back("FILES");
        continue;
      }
      words.insert(words.end(), flag.names.begin(), flag.names.end());
      if (flag.type.empty()) continue;
      const ValueKind kind = KindOfType(flag.type);
      const char* const what = kind.files           ? "files"
                               : kind.directories   ? "directories"
                               : kind.words.empty() ? "none"
                                                    : "words";
      for (const std::string& name : flag.names) {
        const std::string entry = absl::StrCat("'", path, " ", name, "'");
        std::string& entries =
            values[absl::StrCat("kind=", what, " words='", absl::StrJoin(kind.words, " "), "'")];
        absl::StrAppend(&entries, entries.empty() ? "" : "|", entry);
        if (flag.type == "FILE...") {
          absl::StrAppend(&several, "      ", entry, ") previous=", name, " ;;\n");
        }
      }
    }
    absl::StrAppend(&flags, "    '", path, "') words='", absl::StrJoin(words, " "), "' ;;\n");
  });
  std::string cases;
  for (const auto& [shown, entries] : values) {
    absl::StrAppend(&cases, "    ", entries, ") ", shown, " ;;\n");
  }
  return absl::StrReplaceAll(kBashHead, {{"@COMMANDS@\n", commands},
                                         {"@SEVERAL@\n", several},
                                         {"@VALUES@\n", cases},
                                         {"@FLAGS@\n", flags}});
}

// zsh: _arguments of each command.
std::string ZshQuoted(absl::string_view text, absl::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != special.npos) out += '\\';
    out += c;
  }
  return absl::StrReplaceAll(out, {{"'", "'\\''"}});
}

std::string ZshAction(const std::string& type) {
  const ValueKind kind = KindOfType(type);
  std::string action;
  if (kind.files) action = "_files";
  if (kind.directories) action = "_files -/";
  if (kind.words.empty()) return action.empty() ? " " : action;
  const std::string words = absl::StrJoin(kind.words, " ");
  if (action.empty()) return absl::StrCat("(", words, ")");
  return absl::StrCat("{compadd ", words, "; ", action, "}");
}

void AppendZshFunction(const CLI::App& command, std::string* script) {
  const std::string function =
      absl::StrCat("_", absl::StrReplaceAll(FullCommandName(command), {{" ", "_"}}));
  const auto inner = command.get_subcommands([](const CLI::App*) { return true; });
  absl::StrAppend(script, function, "() {\n");
  if (!inner.empty()) absl::StrAppend(script, "  local context state state_descr line\n");
  absl::StrAppend(script, "  _arguments", inner.empty() ? "" : " -C");
  for (const CommandFlag& flag : FlagsOf(command)) {
    const std::string help = ZshQuoted(flag.help, "[]:\\");
    const std::string type = ZshQuoted(flag.type, ":\\");
    if (flag.positional) {
      absl::StrAppend(script, " \\\n    '*:", ZshQuoted(flag.names[0], ":"), ":_files'");
      continue;
    }
    for (const std::string& name : flag.names) {
      const bool several = flag.type == "FILE...";
      absl::StrAppend(script, " \\\n    '", several ? "*" : "", name);
      if (!flag.type.empty() && !several && name.rfind("--", 0) == 0) absl::StrAppend(script, "=");
      absl::StrAppend(script, "[", help, "]");
      if (several) {
        absl::StrAppend(script, ":*-*:", type, ":_files");
      } else if (!flag.type.empty()) {
        absl::StrAppend(script, flag.type[0] == '[' ? "::" : ":", type, ":", ZshAction(flag.type));
      }
      absl::StrAppend(script, "'");
    }
  }
  if (inner.empty()) {
    absl::StrAppend(script, "\n}\n\n");
    return;
  }
  absl::StrAppend(script, " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n",
                  "  case $state in\n    command)\n      local -a commands=(\n");
  for (const CLI::App* each : inner) {
    absl::StrAppend(script, "        '", each->get_name(), ":",
                    ZshQuoted(each->get_description(), ":\\"), "'\n");
  }
  absl::StrAppend(script, "      )\n      _describe command commands ;;\n    argument)\n",
                  "      (( $+functions[", function, "_${line[1]}] )) && ", function,
                  "_${line[1]} ;;\n  esac\n}\n\n");
}

std::string ZshScript(const CLI::App& app) {
  std::string script =
      "#compdef spillway\n# zsh completion of spillway: `spillway completion zsh` prints this.\n\n";
  EachCommand(app, [&](const CLI::App& command) { AppendZshFunction(command, &script); });
  return absl::StrCat(script,
                      "if [[ $funcstack[1] == _spillway ]]; then\n  _spillway \"$@\"\nelse\n",
                      "  compdef _spillway spillway\nfi\n");
}

// fish: a line a flag.
std::string FishQuoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string FishScript(const CLI::App& app) {
  std::string script = "# fish completion of spillway: `spillway completion fish` prints this.\n";
  EachCommand(app, [&](const CLI::App& command) {
    std::string condition = "__fish_use_subcommand";
    if (&command != &app) {
      condition = absl::StrCat("__fish_seen_subcommand_from ", command.get_name());
      const CLI::App* const parent = command.get_parent();
      if (parent != &app) {
        condition =
            absl::StrCat("__fish_seen_subcommand_from ", parent->get_name(), "; and ", condition);
      }
    }
    const std::string start = absl::StrCat("complete -c spillway -n ", FishQuoted(condition));
    const std::vector<std::string> inner = SubcommandNames(command);
    const std::string before_inner =
        &command == &app
            ? start
            : absl::StrCat(
                  "complete -c spillway -n ",
                  FishQuoted(absl::StrCat(condition, "; and not __fish_seen_subcommand_from ",
                                          absl::StrJoin(inner, " "))));
    for (const std::string& name : inner) {
      absl::StrAppend(&script, before_inner, " -f -a ", name, " -d ",
                      FishQuoted(FindSubcommand(command, name)->get_description()), "\n");
    }
    for (const CommandFlag& flag : FlagsOf(command)) {
      if (flag.positional) continue;
      std::string line = start;
      for (const std::string& name : flag.names) {
        const bool is_long = name.rfind("--", 0) == 0;
        absl::StrAppend(&line, is_long ? " -l " : " -s ", name.substr(is_long ? 2 : 1));
      }
      if (!flag.type.empty()) {
        const ValueKind kind = KindOfType(flag.type);
        std::string values = absl::StrJoin(kind.words, " ");
        if (kind.directories) absl::StrAppend(&values, " (__fish_complete_directories)");
        absl::StrAppend(&line, kind.files ? " -r -F" : " -x");
        if (!values.empty()) absl::StrAppend(&line, " -a ", FishQuoted(values));
      } else {
        absl::StrAppend(&line, " -f");
      }
      absl::StrAppend(&script, line, " -d ", FishQuoted(flag.help), "\n");
    }
  });
  return script;
}

absl::Status PrintCompletion(const CLI::App& app, const std::string& shell) {
  using Script = std::string (*)(const CLI::App&);
  ASSIGN_OR_RETURN(
      const Script script,
      ChoiceFlag<Script>("completion", shell,
                         {{"bash", BashScript}, {"zsh", ZshScript}, {"fish", FishScript}}));
  std::fputs(script(app).c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

void AddCompletionCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command =
      app.add_subcommand("completion", "Print a script that completes this command in a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")->required();
  command->footer(
      "Example:\n"
      "  spillway completion bash > ~/.local/share/bash-completion/completions/spillway\n"
      "  spillway completion zsh > \"${fpath[1]}/_spillway\"\n"
      "  spillway completion fish > ~/.config/fish/completions/spillway.fish");
  command->callback([run, shell, &app] {
    *run = [shell, &app] { return CommandOutcome{PrintCompletion(app, *shell)}; };
  });
}

}  // namespace spillway
