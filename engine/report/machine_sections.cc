#include "engine/report/machine_sections.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/report/report_html.h"

namespace spillway {
namespace {

struct TimeShare {
  absl::string_view name;
  absl::string_view color;  // a class of report.css
  double seconds = 0;
  absl::string_view meaning;
};

// Divides one thread's time into parts without overlap.
std::vector<TimeShare> TimeShares(const RunRows& rows) {
  const auto sum = [&](absl::string_view field) { return rows.steps.total(field).sum; };
  std::vector<TimeShare> shares = {
      {"computing", "k1", sum("busy_compute"), "forward, backward and loss"},
      {"waiting for disk", "k2", sum("stall_disk"), "weights or gradients were not there yet"},
      {"waiting for updates", "k5", sum("stall_update"),
       "rounding gradients, or the optimizer, had not finished"},
      {"waiting for copies", "k6", sum("stall_copy"), "between host and device"},
      {"waiting for other ranks", "k4", sum("stall_collective"), "collectives"},
  };
  double other = sum("seconds");
  for (const TimeShare& share : shares) other -= share.seconds;
  shares.push_back({"other", "k7", std::max(0.0, other),
                    "reading samples, finishing updates before an evaluation, writing rows"});
  shares.push_back(
      {"commits", "k3", sum("commit_seconds"), "starting them, and updates that one held back"});
  shares.push_back(
      {"evaluations", "k8", rows.evaluations.total("seconds").sum, "on held-out data"});
  std::erase_if(shares, [](const TimeShare& share) { return share.seconds <= 0; });
  return shares;
}

std::string TimePanel(const ReportInput& input) {
  const std::vector<TimeShare> shares = TimeShares(*input.rows);
  double total = 0;
  for (const TimeShare& share : shares) total += share.seconds;
  if (total <= 0) return "";
  std::string bar;
  HtmlTable table({"", "Time", "Share", ""}, {1, 2});
  for (const TimeShare& share : shares) {
    const std::string percent = absl::StrFormat("%.1f %%", 100 * share.seconds / total);
    absl::StrAppendFormat(&bar, "<div class=\"%s\" style=\"width: %.3f%%\" title=\"%s: %s\"></div>",
                          share.color, 100 * share.seconds / total, share.name, percent);
    table.Row({absl::StrCat("<span class=\"swatch ", share.color, "\"></span>", share.name),
               FormatSeconds(share.seconds), percent,
               absl::StrCat("<span class=\"note\">", share.meaning, "</span>")});
  }
  table.Row({"total", FormatSeconds(total), "100 %", ""}, "total");
  return absl::StrCat("<div class=\"panel\"><h3>Where the time", OfRank(input.run),
                      " went</h3>\n<div class=\"shares\">", bar, "</div>\n", table.Html(),
                      "</div>\n");
}

std::string BindingText(const nlohmann::json& row) {
  if (!row.is_object() || !row.contains("binding") || !row["binding"].is_object()) return "";
  std::string text;
  for (const char* phase : {"forward", "backward", "flush"}) {
    const auto found = row["binding"].find(phase);
    if (found == row["binding"].end() || !found->is_string()) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", phase, ": ",
                    EscapeHtml(found->get<std::string>()));
  }
  return text;
}

std::string PredictionTable(const ReportInput& input) {
  const ReportSeries& steps = input.rows->steps;
  const double measured = steps.MedianOfMeans("seconds");
  HtmlTable table({"", "Per step", "Measured ÷ this", ""}, {1, 2});
  const auto add = [&](absl::string_view field, const std::string& name,
                       absl::string_view meaning) {
    if (steps.total(field).count == 0) return;
    const double seconds = steps.MedianOfMeans(field);
    table.Row({name, FormatSeconds(seconds),
               seconds > 0 ? absl::StrFormat("%.2f ×", measured / seconds) : "—",
               absl::StrCat("<span class=\"note\">", meaning, "</span>")});
  };
  table.Row({"measured", FormatSeconds(measured), "", "<span class=\"note\">median</span>"});
  add("predicted_seconds", "predicted", "by the plan, from this machine's rates");
  const double observed = input.run.predicted_at_observed_rates_seconds.value_or(0);
  if (observed > 0 && std::isfinite(observed)) {
    table.Row({"predicted with measured rates", FormatSeconds(observed),
               absl::StrFormat("%.2f ×", measured / observed),
               "<span class=\"note\">the same, with the rates of disk, link and collectives as "
               "these steps had them</span>"});
  }
  add("bound_seconds", "lower bound", "what the slowest resource needs, whatever runs beside it");
  add("binding_seconds", "limiting resources",
      "how long the resource that limits each phase, by the plan, was busy in it");
  const std::string binding = BindingText(steps.last_row());
  return absl::StrCat(
      "<div class=\"panel\"><h3>Predicted against measured</h3>\n", table.Html(),
      binding.empty() ? "" : "<p class=\"note\">What limits each phase, by the plan: ", binding,
      binding.empty() ? "" : ".</p>", "</div>\n");
}

}  // namespace

namespace {

// Speed in tokens, or in samples for a model that reads no tokens.
std::string SpeedFigure(const ReportInput& input) {
  const ReportSeries& steps = input.rows->steps;
  if (steps.total("tokens").sum > 0 || steps.total("samples").sum <= 0) {
    return ChartFigure("tokens_per_second", "Tokens per second",
                       "That the model reads, without padding. Without evaluations and commits.");
  }
  std::string unit = EscapeHtml(input.run.data.unit);
  if (!unit.empty()) unit[0] = absl::ascii_toupper(unit[0]);
  return ChartFigure("samples_per_second", absl::StrCat(unit, " per second"),
                     "Without evaluations and commits.");
}

}  // namespace

std::string SpeedSection(const ReportInput& input) {
  const ReportSeries& steps = input.rows->steps;
  if (steps.rows() == 0) return "";
  const bool predicted =
      steps.total("predicted_seconds").count > 0 || steps.total("bound_seconds").count > 0;
  const std::string of_rank = OfRank(input.run);
  std::string html = absl::StrCat(
      "<h2>Speed</h2>\n", TimePanel(input), "<div class=\"grid lead\">\n",
      ChartFigure(
          "time", absl::StrCat("Where the time of a step", of_rank, " went"),
          "The computing thread's time, piled up: nothing is counted twice. \"Other\" has no "
          "counter. Commits are waited for between steps; the green ticks are when they began.",
          true),
      SpeedFigure(input),
      ChartFigure("busy", absl::StrCat("How busy each resource", of_rank, " was"),
                  "Busy time over the step's time. Resources work at the same time, so the shares "
                  "overlap, and several workers together can pass 100 %."));
  if (predicted) {
    absl::StrAppend(&html, ChartFigure("predicted", "Predicted and measured time of a step",
                                       "The plan's prediction, and the least that the slowest "
                                       "resource needs.",
                                       true));
  }
  absl::StrAppend(&html, "</div>\n", predicted ? PredictionTable(input) : "");
  return html;
}

std::string MemorySection(const ReportInput& input) {
  const ReportSeries& steps = input.rows->steps;
  if (steps.rows() == 0) return "";
  return absl::StrCat(
      "<h2>Memory and storage", OfRank(input.run), "</h2>\n<div class=\"grid\">\n",
      ChartFigure(
          "memory", "Memory against the budgets",
          "The highest so far in each process of the run, of what is counted against the two "
          "budgets (dashed). Nothing goes beyond them."),
      ChartFigure("resident", "Memory of the process",
                  "Resident: what is counted, and the program with its libraries."),
      ChartFigure("nvme", "NVMe traffic of a step", "Bytes read and written in each step."),
      "</div>\n");
}

}  // namespace spillway
