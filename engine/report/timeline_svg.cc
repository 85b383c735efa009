#include "engine/report/timeline_svg.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/report/report_html.h"

namespace spillway {
namespace {

// The width of the picture is 1180; the page scales it.
constexpr double kLeft = 132;
constexpr double kWidth = 1040;
constexpr double kRight = kLeft + kWidth;
constexpr double kTop = 24;  // the phases' names
constexpr double kGap = 10;
constexpr double kBar = 24;   // height of compute, waits, a resource
constexpr double kThin = 14;  // height of one worker among several
constexpr double kArea = 40;  // height of transfers
// A damaged file may contain more spans than any step has.
constexpr size_t kMostDrawn = 2000;
constexpr double kLetter = 6.2;

std::string SpacedPercent(double part) { return absl::StrFormat("%.0f %%", 100 * part); }

class Drawing {
 public:
  explicit Drawing(const StepTimeline& timeline) : t_(timeline) {}

  std::string Html() {
    Phases();
    Compute();
    Waits();
    for (size_t i = 0; i < std::min<size_t>(t_.resources.size(), 64); ++i) {
      const TimelineRow& row = t_.resources[i];
      row.bin_bytes.empty() ? Worker(row) : Transfers(row);
    }
    Axis();
    const double height = y_ + 4;
    std::string marks;
    double before = 0;
    for (int i = 0; i < kPhases; ++i) {
      const double at = X(t_.phase_ends[i]);
      if (at <= X(before) || at >= kRight - 0.5) continue;
      before = t_.phase_ends[i];
      absl::StrAppendFormat(&marks, "<path class=\"phase\" d=\"M%.1f 4V%.1f\"/>\n", at, y_ - 20);
    }
    return absl::StrCat(
        absl::StrFormat("<svg class=\"timeline\" viewBox=\"0 0 1180 %.0f\" role=\"img\" "
                        "aria-labelledby=\"timeline-title timeline-text\">\n",
                        height),
        "<title id=\"timeline-title\">Step ", t_.step, ", ", FormatSeconds(t_.seconds),
        "</title>\n<desc id=\"timeline-text\">", EscapeHtml(description_), "</desc>\n", body_,
        marks, "</svg>\n");
  }

 private:
  double X(double seconds) const {
    return kLeft + kWidth * std::clamp(seconds / t_.seconds, 0.0, 1.0);
  }
  // The drawn duration of a span, which is valid also for a damaged file.
  std::string Duration(const TimelineSpan& span) const {
    return FormatSeconds(std::clamp(span.end - span.begin, 0.0, t_.seconds));
  }
  static double Drawn(double left, double right) { return std::max(right - left, 0.4); }

  // The text left of a row: its name, and below it a figure.
  void Label(const std::string& name, const std::string& figure, double height) {
    const double middle = y_ + height / 2;
    const bool two = !figure.empty() && height >= kBar;
    absl::StrAppendFormat(&body_, "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                          kLeft - 8, two ? middle - 2 : middle + 4, EscapeHtml(name));
    if (two) {
      absl::StrAppendFormat(
          &body_, "<text class=\"figure\" x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
          kLeft - 8, middle + 11, EscapeHtml(figure));
    }
    absl::StrAppend(&description_, description_.empty() ? "" : "; ", name,
                    figure.empty() ? "" : " ", figure);
    absl::StrAppendFormat(
        &body_, "<rect class=\"lane\" x=\"%.0f\" y=\"%.1f\" width=\"%.0f\" height=\"%.0f\"/>\n",
        kLeft, y_, kWidth, height);
  }

  double Share(const std::vector<TimelineSpan>& spans) const {
    double sum = 0;
    for (const TimelineSpan& span : spans) {
      sum += std::max(0.0, std::min(span.end, t_.seconds) - std::max(span.begin, 0.0));
    }
    return sum / t_.seconds;
  }

  void Busy(const TimelineRow& row, const char* css, double height) {
    std::string path;
    for (size_t i = 0; i < std::min(row.busy.size(), kMostDrawn); ++i) {
      const double left = X(row.busy[i].begin), width = Drawn(left, X(row.busy[i].end));
      absl::StrAppendFormat(&path, "M%.1f %.1fh%.1fv%.0fh-%.1fz", left, y_, width, height, width);
    }
    absl::StrAppendFormat(&body_, "<path class=\"%s\" d=\"%s\"/>\n", css, path);
  }

  // Writes a name inside its bar; false if there is no room.
  bool Inside(const std::string& name, double left, double width) {
    if (width < kLetter * static_cast<double>(name.size()) + 8) return false;
    absl::StrAppendFormat(
        &body_, "<text class=\"inside\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
        left + width / 2, y_ + kBar / 2 + 4, EscapeHtml(name));
    return true;
  }

  void Phases() {
    double begin = 0;
    const auto name = [&](absl::string_view text, double end) {
      const double room = X(end) - X(begin);
      if (room > kLetter * static_cast<double>(text.size())) {
        absl::StrAppendFormat(&body_,
                              "<text x=\"%.1f\" y=\"14\" text-anchor=\"middle\">%s</text>\n",
                              X(begin) + room / 2, text);
      }
      begin = std::max(begin, end);
    };
    for (int i = 0; i < kPhases; ++i) name(PhaseName(static_cast<Phase>(i)), t_.phase_ends[i]);
    name("evaluation", t_.seconds);
    y_ = kTop;
  }

  void Compute() {
    std::vector<TimelineSpan> spans;
    for (const TimelineOp& op : t_.ops) spans.push_back(op.span);
    Label("compute", SpacedPercent(Share(spans)), kBar);
    for (size_t i = 0; i < std::min(t_.ops.size(), kMostDrawn); ++i) {
      const TimelineOp& op = t_.ops[i];
      const double left = X(op.span.begin), width = Drawn(left, X(op.span.end));
      const std::string name = EscapeHtml(op.name);
      absl::StrAppendFormat(&body_,
                            "<rect class=\"f1 op\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                            "height=\"%.0f\"><title>%s: %s</title></rect>\n",
                            left, y_, width, kBar, name, Duration(op.span));
      // If the whole name has no room, the unit's name may.
      const size_t space = op.name.rfind(' ');
      const std::string unit = space == std::string::npos ? op.name : op.name.substr(space + 1);
      if (!Inside(op.name, left, width)) Inside(unit, left, width);
    }
    y_ += kBar + kGap;
  }

  static const char* WaitClass(const std::string& reason) {
    return reason == "disk"         ? "f2"
           : reason == "update"     ? "f5"
           : reason == "copy"       ? "f6"
           : reason == "collective" ? "f4"
           : reason == "commit"     ? "f3"
                                    : "f7";
  }

  void Waits() {
    double share = 0;
    for (const TimelineRow& row : t_.waits) share += Share(row.busy);
    Label("waits", SpacedPercent(share), kBar);
    for (size_t i = 0; i < std::min<size_t>(t_.waits.size(), 8); ++i) {
      Busy(t_.waits[i], WaitClass(t_.waits[i].name), kBar);
    }
    // Draws the longest ones last, with their names.
    for (size_t i = 0; i < std::min(t_.stalls.size(), kMostDrawn); ++i) {
      const TimelineStall& stall = t_.stalls[i];
      const double left = X(stall.span.begin), width = Drawn(left, X(stall.span.end));
      absl::StrAppendFormat(
          &body_,
          "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\"><title>%s for "
          "%s, before %s</title></rect>\n",
          WaitClass(stall.reason), left, y_, width, kBar, Duration(stall.span),
          EscapeHtml(stall.reason), EscapeHtml(stall.before));
      Inside(stall.reason, left, width);
    }
    y_ += kBar + kGap;
  }

  void Worker(const TimelineRow& row) {
    Label(row.name, SpacedPercent(Share(row.busy)), kThin);
    Busy(row, "f5", kThin);
    y_ += kThin + 4;
  }

  // Draws the times of transfers, faint, and their rates.
  void Transfers(const TimelineRow& row) {
    y_ += kGap - 4;
    double highest = 0, bytes = 0;
    for (const TimelineRow& other : t_.resources) {
      for (const double bin : other.bin_bytes) highest = std::max(highest, bin);
    }
    for (const double bin : row.bin_bytes) bytes += bin;
    Label(row.name, absl::StrCat(SpacedPercent(Share(row.busy)), ", ", FormatByteNumber(bytes)),
          kArea);
    const char* const color = absl::StartsWith(row.name, "copy") ? "f6"
                              : row.name == "collectives"        ? "f4"
                                                                 : "f2";
    Busy(row, absl::StrCat(color, " faint").c_str(), kArea);
    std::string path = absl::StrFormat("M%.1f %.1f", kLeft, y_ + kArea);
    for (size_t i = 0; i < std::min(row.bin_bytes.size(), kMostDrawn); ++i) {
      const double height =
          highest > 0 ? kArea * std::clamp(row.bin_bytes[i] / highest, 0.0, 1.0) : 0;
      absl::StrAppendFormat(&path, "V%.1fH%.1f", y_ + kArea - height,
                            X(row.bin_seconds * static_cast<double>(i + 1)));
    }
    absl::StrAppendFormat(&path, "V%.1fz", y_ + kArea);
    absl::StrAppendFormat(&body_, "<path class=\"%s\" d=\"%s\"/>\n", color, path);
    y_ += kArea + kGap;
  }

  void Axis() {
    y_ += 2;
    absl::StrAppendFormat(&body_, "<path class=\"axis\" d=\"M%.0f %.1fh%.0f\"/>\n", kLeft, y_,
                          kWidth);
    const double rough = t_.seconds / 8;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    const double step = power * (rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : 5);
    for (int i = 0; i * step <= t_.seconds && i < 100; ++i) {
      const double x = X(i * step);
      absl::StrAppendFormat(&body_, "<path class=\"axis\" d=\"M%.1f %.1fv5\"/>\n", x, y_);
      // The last label must not cross the edge.
      if (x > kRight - 16) continue;
      absl::StrAppendFormat(&body_,
                            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x,
                            y_ + 17, i == 0 ? "0" : FormatSeconds(i * step));
    }
    y_ += 22;
  }

  const StepTimeline& t_;
  std::string body_, description_;
  double y_ = 0;
};

}  // namespace

std::string TimelineSvg(const StepTimeline& timeline) {
  if (!(timeline.seconds > 0) || !std::isfinite(timeline.seconds)) return "";
  return Drawing(timeline).Html();
}

}  // namespace spillway
