#include "engine/report/timeline_section.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/options/drive_wear.h"
#include "engine/report/report_html.h"
#include "engine/report/timeline_svg.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

constexpr size_t kStallsShown = 6;

std::string Note(const std::string& text) {
  return absl::StrCat("<span class=\"note\">", text, "</span>");
}

// The stalls by reason, and a list of the longest.
std::string StallPanel(const StepTimeline& t) {
  std::map<std::string, double> by_reason;
  for (const TimelineRow& row : t.waits) {
    for (const TimelineSpan& span : row.busy) by_reason[row.name] += span.end - span.begin;
  }
  HtmlTable table({"Waited for", "Time", "Of the step", ""}, {1, 2});
  for (const auto& [reason, seconds] : by_reason) {
    table.Row({EscapeHtml(reason), FormatSeconds(seconds),
               absl::StrFormat("%.1f %%", 100 * seconds / t.seconds), ""},
              "total");
    std::vector<TimelineStall> longest;
    for (const TimelineStall& stall : t.stalls) {
      if (stall.reason == reason) longest.push_back(stall);
    }
    std::stable_sort(longest.begin(), longest.end(), [](const auto& a, const auto& b) {
      return a.span.end - a.span.begin > b.span.end - b.span.begin;
    });
    longest.resize(std::min(longest.size(), kStallsShown));
    for (const TimelineStall& stall : longest) {
      const double stalled = stall.span.end - stall.span.begin;
      table.Row({"", FormatSeconds(stalled), absl::StrFormat("%.1f %%", 100 * stalled / t.seconds),
                 Note(absl::StrCat("before ", EscapeHtml(stall.before), ", at ",
                                   FormatSeconds(stall.span.begin)))});
    }
  }
  if (table.empty()) table.Row({"nothing", "", "", Note("the computing thread never waited")});
  return absl::StrCat("<div class=\"panel\"><h3>What it waited for</h3>\n", table.Html(),
                      "</div>\n");
}

// Returns "0.012 %" of a day's writes.
std::string DayShare(double days) {
  constexpr double kLeastPercent = 0.001;
  const double percent = 100 * days;
  return percent < kLeastPercent ? absl::StrFormat("< %g %%", kLeastPercent)
                                 : absl::StrFormat("%.2g %%", percent);
}

// The median step (the last one has an additional update): bytes a parameter, and the drive. With
// several ranks bytes a parameter are left out, since a rank's share is not recorded.
std::string TrafficPanel(const ReportInput& input) {
  const ReportSeries& steps = input.rows->steps;
  const double read = steps.MedianOfMeans("nvme_read");
  const double written = steps.MedianOfMeans("nvme_written");
  const double seconds = steps.MedianOfMeans("seconds");
  if (read + written <= 0) return "";
  const bool alone = input.run.ranks == 1;
  const auto a_parameter = [&](double bytes) {
    const auto parameters = static_cast<double>(std::max<uint64_t>(1, input.run.parameters));
    return alone ? absl::StrFormat("%.3g bytes", bytes / parameters) : "";
  };
  HtmlTable table({"", "Per step", alone ? "Per parameter" : "", ""}, {1, 2});
  table.Row({"read from NVMe", FormatByteNumber(read), a_parameter(read), ""});
  table.Row({"written to NVMe", FormatByteNumber(written), a_parameter(written), ""});
  // Facts about the whole run rather than a step.
  HtmlTable drive({"", "", ""}, {1});
  const double rated = input.run.drive_bytes_per_day;
  if (written > 0 && seconds > 0 && rated > 0) {
    table.Row({"of the rated writes a day", DayShare(DriveDays(written, rated)), "",
               Note(absl::StrFormat("of a drive that is rated for %.4g TB a day", rated * 1e-12))});
    drive.Row({alone ? "the drive lasts" : "a drive of its own lasts",
               DriveLifeText(DriveLifeSeconds(written / seconds, rated)),
               Note(absl::StrFormat("when it is written at this rate day and night; its rating is "
                                    "taken to be for %g years, %.3g PB in all",
                                    kDriveRatedYears, DriveLifeBytes(rated) * 1e-15))});
  }
  if (input.run.written_bytes > 0) {
    drive.Row({alone ? "written by this run" : "written in all",
               FormatBytes(input.run.written_bytes),
               Note("first state, steps, evaluations and commits, in all its processes")});
  }
  return absl::StrCat("<div class=\"panel\"><h3>Traffic and wear", OfRank(input.run), "</h3>\n",
                      table.Html(), drive.empty() ? "" : drive.Html(), "</div>\n");
}

// Returns "12.3 s; predicted 11.8 s; 1.12 × the bound of 11 s".
std::string StepText(const StepTimeline& t) {
  std::string text = absl::StrCat("Step ", FormatCount(t.step), ": ", FormatSeconds(t.seconds));
  const auto number = [&](const char* name) {
    const auto found = t.metrics.is_object() ? t.metrics.find(name) : t.metrics.end();
    return found != t.metrics.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  const double predicted = number("predicted_seconds"), bound = number("bound_seconds");
  if (predicted > 0) absl::StrAppend(&text, ", predicted ", FormatSeconds(predicted));
  if (bound > 0) {
    absl::StrAppendFormat(&text, ", %.2f × its bound of %s", t.seconds / bound,
                          FormatSeconds(bound));
  }
  return text + ".";
}

}  // namespace

std::string TimelineSection(const ReportInput& input) {
  std::string html;
  if (input.timeline) {
    const StepTimeline& t = *input.timeline;
    const std::string svg = TimelineSvg(t);
    if (!svg.empty()) {
      std::string text = StepText(t);
      absl::StrAppend(&text, t.steady ? " The last steady one so far."
                                      : " It began, ended or evaluated the run, so it is no "
                                        "steady one.");
      if (t.lost_spans > 0) {
        absl::StrAppend(&text, " ", FormatCount(static_cast<int64_t>(t.lost_spans)),
                        " pieces of work came too fast to be noted and are missing.");
      }
      absl::StrAppend(
          &html, "<div class=\"panel\"><h3>One step by resource</h3>\n<p class=\"note\">",
          EscapeHtml(text),
          " Percentages are of the step. Of the disk: faint while a transfer was under way, full "
          "by how fast; both disk rows have the same scale.<span class=\"narrow\"> Scroll "
          "sideways to see all of it.</span></p>\n<div class=\"scroll\">",
          svg, "</div></div>\n", StallPanel(t));
    }
  }
  absl::StrAppend(&html, TrafficPanel(input));
  return html.empty() ? "" : absl::StrCat("<h2>Time line", OfRank(input.run), "</h2>\n", html);
}

}  // namespace spillway
