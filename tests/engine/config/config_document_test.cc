// docs/CONFIG.md and the tables say the same: every key with its answer, every flag.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/config/deepspeed_keys.h"
#include "engine/config/other_flags.h"
#include "engine/config/train_flag_table.h"
#include "io/file.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using Keys = std::map<std::string, KeyTreatment>;

std::string Document() {
  auto text = ReadSmallFile(absl::StrCat(SPILLWAY_SOURCE_DIR, "/docs/CONFIG.md"));
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

// The `words` of a text.
std::vector<std::string> Quoted(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '`');
  std::vector<std::string> words;
  for (size_t i = 1; i < parts.size(); i += 2) words.push_back(parts[i]);
  return words;
}

// What the start of a table or paragraph says of the keys in it.
std::optional<KeyTreatment> TreatmentNamed(const std::string& line) {
  const std::pair<const char*, KeyTreatment> names[] = {
      {"| Honoured |", KeyTreatment::kHonoured},
      {"| Only with |", KeyTreatment::kOnly},
      {"| Unless enabled |", KeyTreatment::kUnlessEnabled},
      {"| Refused |", KeyTreatment::kRefused},
      {"Decided by the plan:", KeyTreatment::kPlan},
      {"Without effect:", KeyTreatment::kNoEffect},
  };
  for (const auto& [start, treatment] : names) {
    if (absl::StartsWith(line, start)) return treatment;
  }
  return std::nullopt;
}

// The section "Keys": a heading `block` stands for the block itself and is what the names
// below it are relative to.
Keys Documented() {
  Keys keys;
  std::string block;
  std::optional<KeyTreatment> treatment;
  const std::string document = Document();
  const size_t begin = document.find("\n## Keys\n");
  EXPECT_NE(begin, std::string::npos);
  const std::string section =
      document.substr(begin + 1, document.find("\n## ", begin + 1) - begin - 1);
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(section, '\n'))) {
    if (absl::StartsWith(line, "### ")) {
      const std::vector<std::string> names = Quoted(line);
      block = names.empty() ? "" : names[0];
      // A block that has an answer as a whole is in a list as well.
      if (!block.empty()) keys.emplace(block, KeyTreatment::kBlock);
    }
    if (line.empty()) treatment.reset();
    const std::optional<KeyTreatment> named = TreatmentNamed(line);
    if (named) treatment = named;
    if (!treatment) continue;
    const bool table = line[0] == '|';
    if (table && named) continue;  // its heading
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    for (const std::string& name : Quoted(table ? cells[1] : line)) {
      const std::string key = block.empty() ? name : absl::StrCat(block, ".", name);
      EXPECT_TRUE(keys.emplace(key, *treatment).second) << key << " is there twice";
    }
  }
  return keys;
}

TEST(ConfigDocument, HasEveryKeyWithItsAnswer) {
  Keys table;
  for (const KeyRule& rule : DeepSpeedKeyRules()) table[DottedKey(rule.pointer)] = rule.treatment;
  const Keys documented = Documented();
  for (const auto& [key, treatment] : table) {
    const auto found = documented.find(key);
    ASSERT_NE(found, documented.end()) << key << " is missing in docs/CONFIG.md";
    EXPECT_EQ(found->second, treatment) << key;
  }
  for (const auto& [key, treatment] : documented) {
    EXPECT_EQ(table.count(key), 1u) << key << " is only in docs/CONFIG.md";
  }
}

TEST(ConfigDocument, SaysWhyAsTheErrorsDo) {
  const std::string document = Document();
  for (const KeyRule& rule : DeepSpeedKeyRules()) {
    if (rule.why.empty()) continue;
    EXPECT_TRUE(absl::StrContains(document, absl::StrCat("| ", rule.why, " |"))) << rule.why;
  }
}

// The tables between "<!-- NAME: written by ConfigDocument.HasTheTablesOfFlags -->" and
// "<!-- end -->".
std::string InTable(absl::string_view text) { return absl::StrReplaceAll(text, {{"|", "\\|"}}); }

std::string Bounds(const TrainFlag& flag) {
  const TrainFlag::Bounds& bounds = flag.bounds;
  const auto shown = [](double number) {
    return number >= 1e5 ? absl::StrFormat("%.0f", number) : absl::StrCat(number);
  };
  if (bounds.high < TrainFlag::Bounds().high) {
    return absl::StrCat(shown(bounds.low), " to ", bounds.high_included ? "" : "below ",
                        shown(bounds.high));
  }
  const absl::string_view type = flag.type;
  const bool number = type == "N" || absl::StartsWith(type, "NUMBER");
  return number ? absl::StrCat(shown(bounds.low), " or more") : "";
}

std::string SettingsTables() {
  std::string tables;
  for (const TrainFlagGroup& group : TrainFlagGroups()) {
    absl::StrAppend(&tables, "\n### ", group.title,
                    "\n\n| setting | value | default | meaning |\n| --- | --- | --- | --- |\n");
    for (const TrainFlag& flag : group.flags) {
      std::vector<std::string> tasks;
      for (const ModelTask task : flag.tasks) tasks.push_back(ModelTaskName(task));
      const std::string bounds = Bounds(flag);
      absl::StrAppend(&tables, "| `", flag.name, "` |", *flag.type == '\0' ? "" : " `",
                      InTable(flag.type), *flag.type == '\0' ? "" : "`", bounds.empty() ? "" : ", ",
                      bounds, " | ", flag.fallback, " | ", InTable(flag.help),
                      tasks.empty() ? "" : " (", absl::StrJoin(tasks, ", "),
                      tasks.empty() ? "" : ")", " |\n");
    }
  }
  return absl::StrCat(tables, "\n");
}

// A row for all flags that have the same answer: "| `--a`, `--b`, unless `none` | text |".
std::string OtherFlagsTable(OtherFlag::Kind kind, const char* second) {
  std::string table = absl::StrCat("\n| theirs | ", second, " |\n| --- | --- |\n");
  std::set<std::string> rows;
  for (const OtherFlag& flag : OtherTrainFlags()) {
    if (flag.kind != kind) continue;
    std::vector<std::string> names;
    for (const OtherFlag& other : OtherTrainFlags()) {
      if (other.kind == kind && absl::string_view(other.text) == flag.text &&
          absl::string_view(other.harmless) == flag.harmless) {
        names.push_back(absl::StrCat("`", other.name, "`"));
      }
    }
    const std::string harmless =
        *flag.harmless == '\0'
            ? ""
            : absl::StrCat(", unless `", absl::StrReplaceAll(flag.harmless, {{"|", "`, `"}}), "`");
    const char* const quote = kind == OtherFlag::Kind::kAlias ? "`" : "";
    const std::string row = absl::StrCat("| ", absl::StrJoin(names, ", "), harmless, " | ", quote,
                                         flag.text, quote, " |\n");
    if (rows.insert(row).second) absl::StrAppend(&table, row);
  }
  return absl::StrCat(table, "\n");
}

// With SPILLWAY_WRITE_DOCS=1 in the environment the document is written instead.
TEST(ConfigDocument, HasTheTablesOfFlags) {
  using Kind = OtherFlag::Kind;
  const std::pair<const char*, std::string> tables[] = {
      {"settings", SettingsTables()},
      {"aliases", OtherFlagsTable(Kind::kAlias, "here")},
      {"said otherwise", OtherFlagsTable(Kind::kSetting, "here")},
      {"hints", OtherFlagsTable(Kind::kHint, "instead")},
      {"without effect", OtherFlagsTable(Kind::kNoEffect, "because")},
      {"refused", OtherFlagsTable(Kind::kRefused, "instead")}};
  std::string document = Document();
  for (const auto& [name, table] : tables) {
    const std::string begin =
        absl::StrCat("<!-- ", name, ": written by ConfigDocument.HasTheTablesOfFlags -->\n");
    const size_t at = document.find(begin);
    ASSERT_NE(at, std::string::npos) << begin;
    const size_t from = at + begin.size();
    document.replace(from, document.find("<!-- end -->", from) - from, table);
  }
  if (std::getenv("SPILLWAY_WRITE_DOCS") != nullptr) {
    WriteFile(absl::StrCat(SPILLWAY_SOURCE_DIR, "/docs/CONFIG.md"), document);
  }
  EXPECT_EQ(Document(), document) << "write the tables: SPILLWAY_WRITE_DOCS=1, and this test";
}

}  // namespace
}  // namespace spillway
