#include "engine/data/table_reader.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/shell_line.h"
#include "engine/base/utf8_repair.h"
#include "engine/data/line_reader.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Bounds the memory of cells besides their text.
constexpr int kMostColumns = 10'000;

// Assembles lines to rows. One thread.
class TableRows {
 public:
  TableRows(const std::string& path, bool tabs, const TakeTableRow& take)
      : path_(path), tabs_(tabs), take_(take) {}

  absl::Status Line(absl::string_view line, int64_t number) {
    const bool returns = absl::ConsumeSuffix(&line, "\r");
    if (!quoted_) {
      // In a .tsv a line with only a tab has two empty cells.
      const bool blank =
          absl::StripAsciiWhitespace(line).empty() && !(tabs_ && absl::StrContains(line, '\t'));
      if (blank && names_.size() != 1) return absl::OkStatus();
      first_line_ = number;
    }
    if (const size_t valid = ValidUtf8Prefix(line); valid < line.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path_, ":", number, ": byte ", valid + 1, " of the line is not UTF-8: `",
          ShellLine({"iconv", "-f", "latin1", "-t", "utf-8", path_}), " > ",
          ShellLine({absl::StrCat("utf8.", tabs_ ? "tsv" : "csv")}), "` (or another encoding)"));
    }
    if (tabs_) {
      if (std::count(line.begin(), line.end(), '\t') >= kMostColumns) return TooManyCells();
      cells_ = absl::StrSplit(line, '\t');
    } else {
      RETURN_IF_ERROR(AddCells(line));
      if (quoted_) {
        if (returns) cells_.back() += '\r';
        return absl::OkStatus();
      }
    }
    return EndRow();
  }

  absl::Status Finish() const {
    if (quoted_) return Wrong("a quote begins in this row, and does not end");
    if (names_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": it is empty; its first row must ", "name the columns"));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status TooManyCells() const {
    return Wrong(absl::StrCat("the row has more than ", kMostColumns, " cells"));
  }

  absl::Status Wrong(const std::string& why) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ":", first_line_, ": ", why));
  }

  // Adds a line of a .csv: the row's first, or the rest of a quoted cell.
  absl::Status AddCells(absl::string_view line) {
    if (!quoted_) {
      cells_.assign(1, "");
      bytes_ = line.size();
    } else {
      cells_.back() += '\n';
      bytes_ += line.size();
      if (bytes_ > kMaxLineBytes) {
        return Wrong(absl::StrCat("the row has more than ", kMaxLineBytes >> 20,
                                  " MiB: is a quote missing?"));
      }
    }
    bool began_quoted = quoted_;
    for (size_t at = 0; at < line.size(); ++at) {
      const char c = line[at];
      if (quoted_ && c == '"' && at + 1 < line.size() && line[at + 1] == '"') {
        cells_.back() += '"';
        ++at;
      } else if (quoted_ && c == '"') {
        quoted_ = false;
      } else if (quoted_) {
        cells_.back() += c;
      } else if (c == ',') {
        if (cells_.size() == kMostColumns) return TooManyCells();
        cells_.emplace_back();
        began_quoted = false;
      } else if (c == '"' && cells_.back().empty() && !began_quoted) {
        quoted_ = began_quoted = true;
      } else if (c == '"' || began_quoted) {
        return Wrong(absl::StrCat("cell ", cells_.size(), " has text beside its quotes; a quote ",
                                  "within text is doubled, and the text in quotes"));
      } else {
        cells_.back() += c;
      }
    }
    return absl::OkStatus();
  }

  absl::Status EndRow() {
    if (!names_.empty()) {
      if (cells_.size() == names_.size()) return take_(names_, cells_, first_line_);
      return Wrong(absl::StrCat("the row has ", cells_.size(), " cells, and the first row names ",
                                names_.size(), " columns"));
    }
    names_ = std::move(cells_);
    cells_.clear();
    const std::set<std::string> different(names_.begin(), names_.end());
    if (different.size() < names_.size()) return Wrong("two columns have one name");
    return absl::OkStatus();
  }

  const std::string& path_;
  const bool tabs_;
  const TakeTableRow& take_;
  std::vector<std::string> names_, cells_;
  bool quoted_ = false;  // the last cell continues in the next line
  size_t bytes_ = 0;     // of the row
  int64_t first_line_ = 1;
};

}  // namespace

absl::Status ReadTable(const std::string& path, bool tabs, const TakeTableRow& take) {
  TableRows rows(path, tabs, take);
  RETURN_IF_ERROR(ReadLines(
      path, [&](absl::string_view line, int64_t number) { return rows.Line(line, number); }));
  return rows.Finish();
}

}  // namespace spillway
