#include "engine/config/yaml_recipe.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/shell_line.h"
#include "engine/config/other_flags.h"

namespace spillway {
namespace {

// "key" of "key: value" and "key:", which begins a line; "" of other lines.
absl::string_view TopLevelKey(absl::string_view line) {
  const size_t colon = line.find(':');
  if (colon == line.npos || colon == 0 || (colon + 1 < line.size() && line[colon + 1] != ' ')) {
    return "";
  }
  const absl::string_view key = line.substr(0, colon);
  for (const char c : key) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '-') return "";
  }
  return key;
}

std::string Scalar(absl::string_view text) {
  const size_t comment = text.find(" #");
  text = absl::StripAsciiWhitespace(text.substr(0, comment));
  if (text.size() > 1 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0]) {
    text = text.substr(1, text.size() - 2);
  }
  return std::string(text);
}

// A key at the top level: its value or the items of its list, as far as they are scalars.
struct Entry {
  std::string key;
  std::vector<std::string> values;
  bool is_block = false;  // there is more below it
};

std::vector<Entry> Entries(absl::string_view text) {
  std::vector<Entry> entries;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view key = TopLevelKey(line);
    absl::string_view item = absl::StripAsciiWhitespace(line);
    if (!key.empty()) {
      entries.push_back({std::string(key), {}, false});
      std::string value = Scalar(line.substr(key.size() + 1));
      absl::string_view items = value;
      if (absl::ConsumePrefix(&items, "[") && absl::ConsumeSuffix(&items, "]")) {
        for (const absl::string_view each : absl::StrSplit(items, ',', absl::SkipWhitespace())) {
          entries.back().values.push_back(Scalar(each));
        }
      } else if (!value.empty() && value != "~" && value != "null" && value[0] != '#') {
        entries.back().values.push_back(std::move(value));
      }
    } else if (entries.empty() || item.empty() || item[0] == '#') {
      continue;
    } else if (absl::ConsumePrefix(&item, "- ") && TopLevelKey(item).empty()) {
      entries.back().values.push_back(Scalar(item));
    } else {
      entries.back().is_block = true;
    }
  }
  return entries;
}

}  // namespace

bool LooksLikeYaml(absl::string_view path, absl::string_view text) {
  if (absl::EndsWith(path, ".yaml") || absl::EndsWith(path, ".yml")) return true;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StripAsciiWhitespace(line).empty() || line[0] == '#' || line == "---") continue;
    return !TopLevelKey(line).empty();
  }
  return false;
}

std::string YamlAsFlags(absl::string_view text) {
  std::vector<std::string> words, blocks;
  for (const Entry& entry : Entries(text)) {
    if (entry.values.empty()) {
      if (entry.is_block) blocks.push_back(entry.key);
    } else if (entry.key == "adapter" &&
               (entry.values[0] == "lora" || entry.values[0] == "qlora")) {
      words.push_back(absl::StrCat("--", entry.values[0]));  // --adapter is a directory here
    } else if (entry.values.size() == 1) {
      words.push_back(absl::StrCat("--", entry.key, "=", entry.values[0]));
    } else {
      words.push_back(absl::StrCat("--", entry.key));
      words.insert(words.end(), entry.values.begin(), entry.values.end());
    }
  }
  const TranslatedWords found = TranslateWords(words, OwnTrainFlags(), OtherTrainFlags());
  const auto lines = [](absl::string_view title, const std::string& said) {
    return said.empty() ? "" : absl::StrCat("\n  ", title, ": ", said);
  };
  return absl::StrCat(lines("as flags", ShellLine(found.words)),
                      lines("without effect here", absl::StrJoin(found.without_effect, ", ")),
                      lines("to be said as flags by hand", absl::StrJoin(blocks, ", ")),
                      lines("in the way", absl::StrJoin(found.refused, "\n    ")));
}

}  // namespace spillway
