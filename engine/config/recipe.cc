#include "engine/config/recipe.h"

#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/base/flag_value.h"
#include "engine/base/shell_line.h"
#include "engine/base/strict_json.h"
#include "engine/config/deepspeed_values.h"
#include "engine/config/other_flags.h"
#include "engine/config/train_flag_table.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "io/file.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr uint64_t kMostConfigBytes = 32 << 20;
constexpr size_t kMostRecipeBytes = 256 << 10;

// Flags that start ranks, or decide about an earlier run, are given at each start.
constexpr const char* kStarters[] = {"--hostfile", "--launch"};
constexpr const char* kAnew[] = {"--resume", "--overwrite", "--allow-change",
                                 "--resume_from_checkpoint", "--overwrite_output_dir"};

// A setting of the command line that takes the place of another one of the recipe.
constexpr std::pair<const char*, const char*> kReplaced[] = {
    {"--epochs", "--steps"},           {"--steps", "--epochs"},
    {"--no-commit", "--commit-every"}, {"--commit-every", "--no-commit"},
    {"--no-commit", "--persist"},      {"--persist", "--no-commit"},
    {"--no-export", "--export-dtype"}, {"--export-dtype", "--no-export"},
    {"--resume", "--overwrite"},       {"--overwrite", "--resume"},
    {"--offload", "--offload-param"},  {"--offload", "--offload-optimizer"}};

// A setting of the recipe: a flag's name, and what follows it.
struct Recipe {
  std::string name;
  std::vector<std::string> values;
  std::string where;
};

// The words that a value is on a command line; a block is its JSON.
std::vector<std::string> WordsOf(const json& value) {
  std::vector<std::string> words;
  if (value.is_array()) {
    for (const json& each : value) {
      words.push_back(each.is_string() ? each.get<std::string>() : each.dump());
    }
  } else if (!value.is_null()) {
    words.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  }
  return words;
}

bool HasBlocks(const json& value) {
  return value.is_object() ||
         absl::c_any_of(value, [](const json& each) { return each.is_structured(); });
}

// Calls take(name, field) for every flag of train's and of other programs'.
template <typename Take>
void ForEachFlag(Take take) {
  for (const TrainFlagGroup& group : TrainFlagGroups()) {
    for (const TrainFlag& flag : group.flags) {
      std::visit([&](auto field) { take(flag.name, field); }, flag.field);
    }
  }
  for (const OtherFlag& flag : OtherTrainFlags()) {
    if (flag.field != nullptr) take(flag.name, flag.field);
  }
}

json Shown(const TrainFlags::Text& text) { return text ? json(*text) : json(); }
json Shown(const std::vector<std::string>& texts) { return texts.empty() ? json() : json(texts); }
json Shown(bool given) { return given ? json(true) : json(); }

absl::Status Put(const Recipe& one, TrainFlags::Text& field) {
  if (one.values.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(one.where, ": ", one.name, " takes one value"));
  }
  field = one.values.empty() ? "" : one.values[0];
  return absl::OkStatus();
}
absl::Status Put(const Recipe& one, std::vector<std::string>& field) {
  field = one.values;
  return absl::OkStatus();
}
absl::Status Put(const Recipe& one, bool& field) {
  const std::optional<bool> on = AsBoolean(json(absl::StrJoin(one.values, ",")));
  field = one.values.empty() || on == true;
  if (one.values.empty() || on) return absl::OkStatus();
  return Annotate(BadFlagValue(one.name, absl::StrJoin(one.values, ","), "true or false"),
                  one.where);
}

// Puts a recipe's settings into flags.
class RecipeTaker {
 public:
  explicit RecipeTaker(TrainFlags* flags) : flags_(*flags), file_(*flags->config) {
    const json given = GivenFlags(flags_);
    for (const auto& [name, value] : given.items()) given_.insert(OwnFlagOf(name));
    given_.erase("--config");  // the recipe itself
    for (const auto& [winner, loser] : kReplaced) {
      if (given.contains(winner)) given_.insert(loser);
    }
    flags_.recipe = std::exchange(flags_.config, std::nullopt);
  }

  absl::Status TakeYaml(absl::string_view text) {
    if (text.size() > kMostRecipeBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_, " has ", text.size(), " bytes; a recipe has at most 256 KiB"));
    }
    ASSIGN_OR_RETURN(const std::vector<YamlEntry> entries, ParseYamlEntries(text, file_));
    for (const YamlEntry& entry : entries) {
      if (entry.key == "compute_environment" || entry.key == "distributed_type") {
        return absl::InvalidArgumentError(absl::StrCat(
            file_, " is a configuration of accelerate, which is not read", YamlAsFlags(entries)));
      }
    }
    for (const YamlEntry& entry : entries) TakeEntry(entry, entries);
    return Finish();
  }

  absl::Status TakeResolved(const JsonDocument& document) {
    const json& all = document.value;
    const json::json_pointer path("/config/value");
    const bool has_config = all.contains(path) && all[path].is_string();
    const std::string config = has_config ? all[path].get<std::string>() : "";
    if (all.contains("given")) {
      for (const auto& [name, value] : all["given"]["value"].items()) {
        TakeEarlier(name, value, document.Where(JsonPointerTo("/given/value", name)));
      }
    }
    for (const auto& [name, entry] : all.items()) {
      const std::string flag = absl::StrCat("--", name);
      const std::string where = document.Where(JsonPointerTo("", name));
      const bool given = FindTrainFlag(flag) != nullptr && IsGiven(flag, entry, config);
      if (given && !all.contains("given")) TakeEarlier(flag, entry["value"], where);
      const bool of_file =
          !config.empty() && absl::StartsWith(TextOfSource(entry), absl::StrCat(config, ":"));
      if ((!given && !of_file) || entry["value"].is_null() || given_.contains(flag)) continue;
      if (absl::c_linear_search(kAnew, flag)) continue;
      flags_.expected.push_back({name, entry["value"].dump(), where});
    }
    return Finish();
  }

 private:
  static std::string TextOfSource(const json& entry) {
    return entry["source"].is_string() ? entry["source"].get<std::string>() : "";
  }
  // Whether a flag or a recipe gave this value, and not another flag or the DeepSpeed file.
  static bool IsGiven(const std::string& flag, const json& entry, const std::string& config) {
    const std::string source = TextOfSource(entry);
    if (absl::StartsWith(source, "--")) return source == flag || source == "--offload";
    const size_t colon = source.rfind(':');
    return colon != source.npos && source.substr(0, colon) != config &&
           source.find_first_not_of("0123456789", colon + 1) == source.npos;
  }

  // A flag of an earlier run.
  void TakeEarlier(const std::string& flag, const json& value, const std::string& where) {
    if (absl::c_linear_search(kAnew, flag) || absl::c_linear_search(kStarters, flag)) return;
    const TrainFlag* const row = FindTrainFlag(flag);
    std::vector<std::string> words = WordsOf(value);
    if (row != nullptr && IsListType(row->type)) words = {absl::StrJoin(words, ",")};
    Take({flag, words, where}, flag);
  }

  void TakeEntry(const YamlEntry& entry, const std::vector<YamlEntry>& all) {
    const std::string where = absl::StrCat(file_, ":", entry.line);
    std::vector<std::string> words = WordsOf(entry.value);
    if (words.empty()) return;
    std::string name = absl::StrCat("--", entry.key);
    // --adapter is a directory here. axolotl names the kind of adapter, and its size apart.
    if (entry.key == "adapter" && (words[0] == "lora" || words[0] == "qlora")) {
      const bool sized = absl::c_any_of(all, [](const YamlEntry& e) { return e.key == "lora_r"; });
      if (words[0] == "lora" && sized) return;
      name = absl::StrCat("--", words[0]);
      words = {"true"};
    }
    const TranslatedWords found = TranslateSetting(name, words);
    for (const std::string& each : found.refused) {
      Refuse(where, absl::StrReplaceAll(each, {{"unknown argument --", "unknown key "},
                                               {"did you mean --", "did you mean "}}));
    }
    flags_.without_effect.insert(flags_.without_effect.end(), found.without_effect.begin(),
                                 found.without_effect.end());
    if (found.words.empty()) return;
    // "--lr=1", or "--data" and what follows it.
    const std::vector<std::string> first = absl::StrSplit(found.words[0], absl::MaxSplits('=', 1));
    Recipe one = {first[0], {found.words.begin() + 1, found.words.end()}, where};
    if (first.size() > 1) one.values.insert(one.values.begin(), first[1]);
    const TrainFlag* const row = FindTrainFlag(one.name);
    if (HasBlocks(entry.value) && (row == nullptr || absl::string_view(row->type) != "JSON")) {
      return Refuse(where, absl::StrCat(entry.key, " is a block; its value is ",
                                        row == nullptr ? "a word" : row->type));
    }
    if (absl::c_linear_search(kStarters, one.name)) {
      return Refuse(where,
                    absl::StrCat(entry.key, " starts ranks, which read this file, too: give ",
                                 one.name, " on the command line"));
    }
    Take(one, entry.key);
  }

  void Take(const Recipe& one, const std::string& key) {
    const std::string own = OwnFlagOf(one.name);
    if (given_.contains(own)) {
      if (own == one.name)
        flags_.overridden.push_back(
            {own.substr(2), one.values.size() == 1 ? json(one.values[0]) : json(one.values),
             one.where});
      return;
    }
    const auto [earlier, first] = taken_.emplace(one.name, one.where);
    if (!first) {
      return Refuse(one.where, absl::StrCat(key, " is ", one.name, ", which is said at ",
                                            earlier->second, " already"));
    }
    flags_.places.emplace(own, one.where);
    bool known = false;
    ForEachFlag([&](const char* name, auto field) {
      if (known || one.name != name) return;
      known = true;
      if (absl::Status put = Put(one, flags_.*field); !put.ok()) errors_.push_back(std::move(put));
    });
    if (!known) Refuse(one.where, absl::StrCat("unknown flag ", one.name));
  }

  absl::Status Finish() {
    if (flags_.config && LooksLikeYaml(*flags_.config, "")) {
      Refuse(flags_.places["--config"],
             absl::StrCat(*flags_.config, " is a recipe, too: a recipe names a DeepSpeed file"));
    }
    if (errors_.empty()) return absl::OkStatus();
    std::vector<absl::Status> errors;
    for (const std::string& each : flags_.refused) {
      errors.push_back(absl::InvalidArgumentError(each));
    }
    errors.insert(errors.end(), errors_.begin(), errors_.end());
    return AllErrors(errors);
  }

  void Refuse(const std::string& where, absl::string_view what) {
    errors_.push_back(absl::InvalidArgumentError(absl::StrCat(where, ": ", what)));
  }

  TrainFlags& flags_;
  const std::string file_;
  std::set<std::string> given_;               // train's own flags that the command line decides
  std::map<std::string, std::string> taken_;  // flags of the recipe so far, with their places
  std::vector<absl::Status> errors_;
};

// Whether this is a config.resolved.json: every setting has a value and a source.
bool IsResolved(const json& value) {
  return value.is_object() && !value.empty() && absl::c_all_of(value, [](const json& each) {
           return each.is_object() && each.contains("value") && each.contains("source");
         });
}

}  // namespace

absl::Status TakeConfigFile(TrainFlags* flags) {
  if (!flags->config || flags->config_text) return absl::OkStatus();
  const std::string path = *flags->config;
  auto text = ReadSmallFile(path, kMostConfigBytes);
  if (!text.ok()) {
    // How DeepSpeed's launchers pass a configuration on: {" in base64.
    const bool encoded = absl::StartsWith(path, "eyJ") || absl::StartsWith(path, "ewog");
    return absl::InvalidArgumentError(absl::StrCat(
        "--config: ",
        absl::IsNotFound(text.status()) ? absl::StrCat(path, ": there is no such file")
                                        : std::string(text.status().message()),
        encoded ? "; if this is a configuration in base64, decode it into a file" : ""));
  }
  flags->config_text = *std::move(text);
  if (LooksLikeYaml(path, *flags->config_text)) {
    return RecipeTaker(flags).TakeYaml(*flags->config_text);
  }
  if (!absl::StrContains(*flags->config_text, "\"source\"")) return absl::OkStatus();
  const auto document = ParseStrictJson(*flags->config_text, path);
  if (!document.ok() || !IsResolved(document->value)) return absl::OkStatus();
  return RecipeTaker(flags).TakeResolved(*document);
}

json GivenFlags(const TrainFlags& flags) {
  json given = json::object();
  ForEachFlag([&](const char* name, auto field) {
    json value = Shown(flags.*field);
    if (!value.is_null()) given.emplace(name, std::move(value));
  });
  return given;
}

std::string YamlAsFlags(const std::vector<YamlEntry>& entries) {
  TranslatedWords all;
  std::vector<std::string> blocks;
  for (const YamlEntry& entry : entries) {
    if (HasBlocks(entry.value)) {
      blocks.push_back(entry.key);
      continue;
    }
    const std::vector<std::string> words = WordsOf(entry.value);
    if (words.empty()) continue;
    const TranslatedWords found = TranslateSetting(absl::StrCat("--", entry.key), words);
    all.words.insert(all.words.end(), found.words.begin(), found.words.end());
    all.without_effect.insert(all.without_effect.end(), found.without_effect.begin(),
                              found.without_effect.end());
    all.refused.insert(all.refused.end(), found.refused.begin(), found.refused.end());
  }
  const auto lines = [](absl::string_view title, const std::string& said) {
    return said.empty() ? "" : absl::StrCat("\n  ", title, ": ", said);
  };
  return absl::StrCat(lines("as flags", ShellLine(all.words)),
                      lines("without effect here", absl::StrJoin(all.without_effect, ", ")),
                      lines("to be said as flags by hand", absl::StrJoin(blocks, ", ")),
                      lines("in the way", absl::StrJoin(all.refused, "\n    ")));
}

}  // namespace spillway
