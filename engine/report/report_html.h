// Text for an HTML page: everything that comes from outside goes through here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace spillway {

// For text and for attributes in double quotes. What is not UTF-8 becomes U+FFFD, control
// characters but newlines and tabs become spaces.
std::string EscapeHtml(absl::string_view text);

// JSON that stands in a <script>: no "<", so neither "</script>" nor "<!--" is in it. What is
// not UTF-8 becomes U+FFFD.
std::string JsonForScript(const nlohmann::json& json);

// "2026-03-01 14:05:09 UTC"; a dash for what is no time.
std::string FormatTime(double seconds_since_1970);
// "12,345,678".
std::string FormatCount(int64_t count);
// "124M", "1.31B" parameters: three digits at most.
std::string FormatParameters(double count);
// "12.3 MiB" of a number that a file says, which may be any.
std::string FormatByteNumber(double bytes);
// "1m20s", "3.42 s", "12.3 ms".
std::string FormatSeconds(double seconds);
// "0.1234", "12.34", "12,345", or a dash when there is no number.
std::string FormatNumber(double number);

// A string as it is; anything else as JSON has it. Not escaped.
std::string TextOf(const nlohmann::json& value);

// A cell's text is HTML already: escaped by whoever made it.
class HtmlTable {
 public:
  // Columns named in `numeric` (by index) are aligned right; a last column without a heading
  // is for notes and takes the room that is left. On a narrow screen notes stand below their row,
  // and rows of more than three columns become lists.
  HtmlTable(std::vector<std::string> head, std::vector<size_t> numeric = {});
  void Row(const std::vector<std::string>& cells, absl::string_view row_class = "");
  bool empty() const { return rows_ == 0; }
  std::string Html() const;

 private:
  std::vector<bool> numeric_;
  std::vector<std::string> names_;  // of the columns, as text
  std::string body_, head_;
  bool has_notes_ = false;
  int rows_ = 0;
};

// A place for a chart of engine/report/report.js, and what it shows in a sentence.
std::string ChartFigure(absl::string_view id, absl::string_view title, absl::string_view text,
                        bool wide = false);

}  // namespace spillway
