#include "engine/report/report_html.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/progress.h"
#include "engine/base/utf8.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

// Replaces every byte of `text` that is not valid UTF-8.
std::string ValidUtf8(absl::string_view text) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    Utf8Decoder decoder;
    size_t at = begin;
    auto result = Utf8Decoder::Result::kMore;
    while (at < text.size() && result == Utf8Decoder::Result::kMore) {
      result = decoder.Next(static_cast<unsigned char>(text[at++]));
    }
    if (result == Utf8Decoder::Result::kCodePoint) {
      absl::StrAppend(&out, text.substr(begin, at - begin));
      begin = at;
    } else {
      absl::StrAppend(&out, kReplacement);
      ++begin;
    }
  }
  return out;
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  std::string out;
  for (const char c : ValidUtf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default: {
        const auto byte = static_cast<unsigned char>(c);
        out.push_back((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F ? ' ' : c);
      }
    }
  }
  return out;
}

std::string JsonForScript(const nlohmann::json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string FormatTime(double seconds_since_1970) {
  constexpr double kMostSeconds = 1e12;
  if (!(std::abs(seconds_since_1970) < kMostSeconds)) return "—";
  const std::time_t time = static_cast<std::time_t>(seconds_since_1970);
  std::tm parts = {};
  if (gmtime_r(&time, &parts) == nullptr) return "—";
  char text[64] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string FormatCount(int64_t count) {
  const std::string digits = absl::StrCat(count);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    const bool group = (digits.size() - i) % 3 == 0;
    if (i > 0 && group && digits[i - 1] != '-') out.push_back(',');
    out.push_back(digits[i]);
  }
  return out;
}

std::string FormatParameters(double count) {
  const char* units[] = {"", "k", "M", "B", "T"};
  double value = count;
  int unit = 0;
  for (; value >= 999.5 && unit < 4; ++unit) value /= 1000;
  return absl::StrFormat("%.3g%s", value, units[unit]);
}

std::string FormatByteNumber(double bytes) {
  if (std::isnan(bytes)) return "—";
  return FormatBytes(static_cast<uint64_t>(std::llround(std::clamp(bytes, 0.0, 1e18))));
}

std::string FormatSeconds(double seconds) {
  constexpr double kMostSeconds = 1e12;
  if (!(std::abs(seconds) < kMostSeconds)) return "—";
  if (seconds >= 60) return FormatDuration(seconds);
  if (seconds >= 1 || seconds == 0) return absl::StrFormat("%.3g s", seconds);
  if (seconds >= 1e-3) return absl::StrFormat("%.3g ms", seconds * 1e3);
  return absl::StrFormat("%.3g µs", seconds * 1e6);
}

std::string FormatNumber(double number) {
  if (!std::isfinite(number)) return "—";
  if (std::abs(number) >= 1000 && std::abs(number) < 1e12) return FormatCount(std::llround(number));
  return absl::StrFormat("%.4g", number);
}

std::string TextOf(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

HtmlTable::HtmlTable(std::vector<std::string> head, std::vector<size_t> numeric)
    : numeric_(head.size()) {
  // An attribute has no markup: only the text after it.
  for (const std::string& cell : head) names_.push_back(cell.substr(cell.rfind('>') + 1));
  for (const size_t column : numeric) numeric_[column] = true;
  has_notes_ = head.back().empty();
  for (size_t i = 0; i < head.size(); ++i) {
    absl::StrAppend(&head_, "<th scope=\"col\"", numeric_[i] ? " class=\"number\">" : ">", head[i],
                    "</th>");
  }
}

void HtmlTable::Row(const std::vector<std::string>& cells, absl::string_view row_class) {
  absl::StrAppend(&body_, "<tr");
  if (!row_class.empty()) absl::StrAppend(&body_, " class=\"", row_class, "\"");
  absl::StrAppend(&body_, ">");
  for (size_t i = 0; i < cells.size(); ++i) {
    // The label before the cell, used when a narrow page shows the table as a list.
    const std::string label = (i > 0 || numeric_[i]) && !names_[i].empty()
                                  ? absl::StrCat(" data-label=\"", names_[i], "\"")
                                  : "";
    absl::StrAppend(&body_, "<td", numeric_[i] ? " class=\"number\"" : "", label, ">", cells[i],
                    "</td>");
  }
  absl::StrAppend(&body_, "</tr>\n");
  ++rows_;
}

std::string HtmlTable::Html() const {
  return absl::StrCat("<div class=\"scroll\"><table",
                      has_notes_          ? " class=\"notes\""
                      : names_.size() > 3 ? " class=\"list\""
                                          : "",
                      ">\n<thead><tr>", head_, "</tr></thead>\n<tbody>\n", body_,
                      "</tbody></table></div>\n");
}

}  // namespace spillway
