// Rows of texts: .csv, .tsv and .jsonl, and what labels, pairs, words and prompts are made of them.
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/data/jsonl.h"
#include "engine/data/labelled_text.h"
#include "engine/data/labelled_words.h"
#include "engine/data/table_reader.h"
#include "engine/data/text_pairs.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {
namespace {

using TableRow = std::vector<std::string>;

// The row of names and those below it.
absl::StatusOr<std::vector<TableRow>> TableOf(const std::string& path) {
  std::vector<TableRow> rows;
  const absl::Status read =
      ReadTable(path, false, [&](const auto& names, const auto& cells, int64_t line) {
        SPILLWAY_CHECK(line > 1 && names.size() == cells.size());
        if (rows.empty()) rows.push_back(names);
        rows.push_back(cells);
        return absl::OkStatus();
      });
  if (!read.ok()) return read;
  return rows;
}

std::string Quoted(const std::vector<TableRow>& rows) {
  std::string text;
  for (const TableRow& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&text, i == 0 ? "" : ",", "\"", absl::StrReplaceAll(row[i], {{"\"", "\"\""}}),
                      "\"");
    }
    text += '\n';
  }
  return text;
}

void ReadAs(const std::string& path, bool* accepted) {
  const auto taken = [&](const absl::Status& status) {
    if (status.ok()) {
      *accepted = true;
    } else {
      Refuse(status, {absl::StatusCode::kInvalidArgument});
    }
  };
  const std::vector<std::string> names = {"O", "B-X"};
  taken(ReadLabelledTexts(path, {}, false, [&](const LabelledText& text) {
    SPILLWAY_CHECK(!text.first.empty());
    for (const auto problem : {ClassifierProblem::kSingleLabel, ClassifierProblem::kMultiLabel,
                               ClassifierProblem::kRegression}) {
      if (text.label.is_null()) break;
      const auto label =
          ReadLabel(text.label, ClassifierConfig{.labels = names, .problem = problem});
      if (!label.ok()) Refuse(label.status(), {absl::StatusCode::kInvalidArgument});
      const bool one = problem == ClassifierProblem::kSingleLabel;
      if (label.ok()) SPILLWAY_CHECK(label->size() == (one ? 1 : names.size()));
    }
    return absl::OkStatus();
  }));
  taken(ReadTextPairs(path, {}, true, [&](const TextPairRow& row) {
    SPILLWAY_CHECK(!row.source.empty() && row.target.has_value());
    return absl::OkStatus();
  }));
}

}  // namespace

SPILLWAY_FUZZ(text_rows, 300) {
  static const ScratchDirectory directory;
  const std::string csv = directory.PathOf("rows.csv"), tsv = directory.PathOf("rows.tsv");
  const std::string jsonl = directory.PathOf("rows.jsonl"), txt = directory.PathOf("rows.txt");
  for (const char* name : {"rows.csv", "rows.tsv", "rows.jsonl", "rows.txt"})
    directory.Write(name, input);
  bool accepted = false;
  for (const std::string& path : {csv, tsv, jsonl}) ReadAs(path, &accepted);
  const absl::Status words = ReadLabelledWords(jsonl, {}, true, [&](const LabelledWords& row) {
    SPILLWAY_CHECK(row.words.size() == row.labels.size());
    return absl::OkStatus();
  });
  if (!words.ok()) Refuse(words, {absl::StatusCode::kInvalidArgument});
  for (const std::string& path : {jsonl, txt}) {
    const auto prompts = ReadPrompts(path, "", "");
    if (!prompts.ok()) Refuse(prompts.status(), {absl::StatusCode::kInvalidArgument});
  }
  const auto rows = TableOf(csv);
  if (!rows.ok()) {
    Refuse(rows.status(), {absl::StatusCode::kInvalidArgument});
  } else if (!rows->empty()) {
    directory.Write("rows.csv", Quoted(*rows));
    const auto again = TableOf(csv);
    SPILLWAY_CHECK(again.ok() && *again == *rows);
  }
  return accepted || words.ok();
}

}  // namespace spillway
