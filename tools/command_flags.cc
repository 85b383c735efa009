#include "tools/command_flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/config/train_flag_table.h"

namespace spillway {
namespace {

CommandFlag FlagOf(const CLI::App& command, const CLI::Option& option) {
  CommandFlag flag;
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  flag.positional = flag.names.empty();
  if (flag.positional) flag.names.push_back(option.get_name(true));
  if (option.get_items_expected_max() > 0) flag.type = option.get_type_name();
  flag.help = option.get_description();
  flag.required = option.get_required();
  const TrainFlag* const row =
      command.get_name() == "train" ? FindTrainFlag(flag.names.back()) : nullptr;
  if (row != nullptr) {
    flag.required = row->rank == TrainFlag::Rank::kRequired;
    flag.usual = row->rank != TrainFlag::Rank::kOther;
  }
  return flag;
}

// Advice for a word that no flag takes.
std::string WordAdvice(const std::string& command) {
  if (command == "train") {
    return "a model goes to --model DIR, data to --data FILE..., results to --output DIR";
  }
  if (command == "estimate") return "a model goes to --model DIR";
  if (command == "generate") return "a prompt goes to --prompt: --prompt @";
  if (command == "predict") return "prompts go to --data FILE..., a model to --model DIR";
  if (command == "export") return "a run goes to --from OUTPUT, its model to --to DIR";
  return "each word needs a flag before it";
}

}  // namespace

std::vector<CommandFlagGroup> CommandFlagGroups(const CLI::App& command) {
  std::vector<CommandFlagGroup> groups;
  CommandFlagGroup plain = {kPlainFlags, {}};
  for (const CLI::Option* option : command.get_options()) {
    const std::string& title = option->get_group();
    if (title.empty()) continue;  // hidden
    CommandFlag flag = FlagOf(command, *option);
    if (title == "Options") {  // CLI11's title
      plain.flags.push_back(std::move(flag));
      continue;
    }
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const CommandFlagGroup& each) { return each.title == title; });
    if (group == groups.end()) group = groups.insert(groups.end(), {title, {}});
    group->flags.push_back(std::move(flag));
  }
  // The flags for help come last.
  std::stable_partition(plain.flags.begin(), plain.flags.end(), [](const CommandFlag& flag) {
    return flag.names.back().rfind("--help", 0) != 0 && flag.names.back() != "--version";
  });
  groups.push_back(std::move(plain));
  return groups;
}

std::string FullCommandName(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name()
                           : absl::StrCat(FullCommandName(*parent), " ", command.get_name());
}

std::vector<std::string> SubcommandNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* each : command.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(each->get_name());
  }
  return names;
}

const CLI::App* FindSubcommand(const CLI::App& command, absl::string_view name) {
  for (const CLI::App* each : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (each->get_name() == name) return each;
  }
  return nullptr;
}

ValueKind KindOfType(absl::string_view type) {
  ValueKind kind;
  absl::ConsumePrefix(&type, "[");
  absl::ConsumeSuffix(&type, "]");
  for (const absl::string_view part : absl::StrSplit(type, '|', absl::SkipEmpty())) {
    if (absl::StartsWith(part, "FILE")) {
      kind.files = true;
    } else if (absl::StartsWith(part, "DIR") || absl::StartsWith(part, "PATH")) {
      kind.directories = true;
    } else if (!absl::ascii_isupper(part[0])) {
      kind.words.emplace_back(part);
    }
  }
  return kind;
}

OwnFlags OwnFlagsOf(const CLI::App& command) {
  OwnFlags own;
  const std::vector<CommandFlagGroup> groups = CommandFlagGroups(command);
  own.help = absl::StrCat(FullCommandName(command), groups.size() > 1 ? " --help-all" : " --help");
  own.word_advice = WordAdvice(command.get_name());
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) own.takes_words = true;
    if (option->get_group().empty()) continue;
    const auto add = [&](std::string name) {
      own.flags.push_back({std::move(name), option->get_items_expected_min(),
                           option->get_items_expected_max(), IsListType(option->get_type_name())});
    };
    for (const std::string& name : option->get_snames()) add("-" + name);
    for (const std::string& name : option->get_lnames()) add("--" + name);
  }
  return own;
}

}  // namespace spillway
