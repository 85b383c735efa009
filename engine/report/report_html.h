// Text for an HTML page: all external text must pass through these functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace spillway {

// For text and for attributes in double quotes. Invalid UTF-8 becomes U+FFFD; control characters
// except newlines and tabs become spaces.
std::string EscapeHtml(absl::string_view text);

// JSON for a <script>: contains no "<", so neither "</script>" nor "<!--". Invalid UTF-8 becomes
// U+FFFD.
std::string JsonForScript(const nlohmann::json& json);

// "2026-03-01 14:05:09 UTC"; a dash for an invalid time.
std::string FormatTime(double seconds_since_1970);
// "12,345,678".
std::string FormatCount(int64_t count);
// "124M", "1.31B" parameters: three digits at most.
std::string FormatParameters(double count);
// "12.3 MiB", for any number that a file may contain.
std::string FormatByteNumber(double bytes);
// "1m20s", "3.42 s", "12.3 ms".
std::string FormatSeconds(double seconds);
// "0.1234", "12.34", "12,345", or a dash if there is no number.
std::string FormatNumber(double number);

// A string unchanged; other values as JSON. Not escaped.
std::string TextOf(const nlohmann::json& value);

// A table whose cells are HTML: the caller escapes them.
class HtmlTable {
 public:
  // Columns whose index is in `numeric` are aligned right; a last column without a heading is for
  // notes and takes the remaining width. On a narrow screen notes are below their row, and rows of
  // more than three columns become lists.
  HtmlTable(std::vector<std::string> head, std::vector<size_t> numeric = {});
  void Row(const std::vector<std::string>& cells, absl::string_view row_class = "");
  bool empty() const { return rows_ == 0; }
  std::string Html() const;

 private:
  std::vector<bool> numeric_;
  std::vector<std::string> names_;  // headings as plain text
  std::string body_, head_;
  bool has_notes_ = false;
  int rows_ = 0;
};

// The element for a chart of engine/report/report.js, with a sentence that describes it.
std::string ChartFigure(absl::string_view id, absl::string_view title, absl::string_view text,
                        bool wide = false);

}  // namespace spillway
