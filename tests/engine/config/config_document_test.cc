// docs/CONFIG.md and the tables say the same: every key with its answer, every flag.
#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/config/deepspeed_keys.h"
#include "engine/config/other_flags.h"
#include "gtest/gtest.h"
#include "io/file.h"

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

// What stands in docs/CONFIG.md of `flag`, together with those that have the same answer:
// "| `--a`, `--b`, unless `none` | text |".
std::string RowOf(const OtherFlag& flag) {
  std::vector<std::string> names;
  for (const OtherFlag& other : OtherTrainFlags()) {
    if (other.kind == flag.kind && absl::string_view(other.text) == flag.text &&
        absl::string_view(other.harmless) == flag.harmless) {
      names.push_back(absl::StrCat("`", other.name, "`"));
    }
  }
  std::string harmless;
  if (*flag.harmless != '\0') {
    harmless = absl::StrCat(", unless `", absl::StrReplaceAll(flag.harmless, {{"|", "`, `"}}), "`");
  }
  const char* const quote = flag.kind == OtherFlag::Kind::kAlias ? "`" : "";
  return absl::StrCat("| ", absl::StrJoin(names, ", "), harmless, " | ", quote, flag.text, quote,
                      " |");
}

TEST(ConfigDocument, HasTheFlagsOfOtherPrograms) {
  const std::string document = Document();
  for (const OtherFlag& flag : OtherTrainFlags()) {
    EXPECT_TRUE(absl::StrContains(document, RowOf(flag))) << RowOf(flag);
  }
}

}  // namespace
}  // namespace spillway
