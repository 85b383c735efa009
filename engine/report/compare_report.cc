#include "engine/report/compare_report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/numeric/quality.h"
#include "engine/report/overview_sections.h"
#include "engine/report/report.h"
#include "engine/report/report_assets.h"
#include "engine/report/report_html.h"
#include "engine/report/run_sections.h"
#include "io/base/check.h"

namespace spillway {
namespace {

// The names of their OUTPUTs; equal names are extended by as much of the paths as distinguishes
// them.
std::vector<std::string> NamesOf(const std::vector<ReportInput>& runs) {
  std::vector<std::vector<std::string>> parts;
  for (const ReportInput& run : runs) parts.push_back(PathParts(run));
  size_t most = 1;
  for (const auto& path : parts) most = std::max(most, path.size());
  std::vector<std::string> names;
  for (size_t shown = 1; shown <= most; ++shown) {
    names.clear();
    for (const auto& path : parts) {
      const size_t first = path.size() - std::min(shown, path.size());
      names.push_back(absl::StrJoin(path.begin() + static_cast<int64_t>(first), path.end(), "/"));
    }
    if (std::set<std::string>(names.begin(), names.end()).size() == names.size()) break;
  }
  return names;
}

std::string Swatch(size_t run) { return absl::StrCat("<span class=\"swatch r", run, "\"></span>"); }

std::string StateOf(const RunDescription& run) {
  if (run.parts.empty()) return "";
  const RunPart& part = run.parts.back();
  return part.state == "stopped"  ? absl::StrCat("stopped by ", part.message)
         : part.state == "killed" ? "ended unexpectedly"
                                  : part.state;
}

std::string LastValue(const ReportSeries& series, const std::string& field) {
  const nlohmann::json& row = series.last_row();
  const auto found = row.is_object() ? row.find(field) : row.end();
  if (!row.is_object() || found == row.end() || !found->is_number()) return "—";
  return absl::StrFormat("%.4f", found->get<double>());
}

std::string SpeedOf(const ReportInput& input) {
  const ReportSeries& steps = input.rows->steps;
  if (steps.total("tokens").sum > 0) {
    return absl::StrCat(FormatNumber(steps.MedianOfMeans("tokens_per_second")), " tokens/s");
  }
  return absl::StrCat(FormatNumber(steps.MedianOfMeans("samples_per_second")), " ",
                      EscapeHtml(input.run.data.unit), "/s");
}

// The results, a row per run.
std::string ResultsTable(const std::vector<ReportInput>& runs,
                         const std::vector<std::string>& names) {
  HtmlTable table({"Run", "State", "Steps", "Loss", "Held out", "Best", "Speed", "Time",
                   "Peak memory", "Written to NVMe", "Spillway"},
                  {2, 3, 4, 5, 6, 7, 8, 9});
  for (size_t i = 0; i < runs.size(); ++i) {
    const ReportInput& input = runs[i];
    const RunRows& rows = *input.rows;
    const nlohmann::json& last = rows.steps.last_row();
    const int64_t step = last.is_object() ? last.value("step", int64_t{0}) : 0;
    std::string best = "—";
    if (rows.best) {
      best = absl::StrFormat("%s%.4f, step %s",
                             rows.best->metric == "loss" ? "" : rows.best->metric + " ",
                             rows.best->value, FormatCount(rows.best->step));
    }
    table.Row({absl::StrCat(Swatch(i), EscapeHtml(names[i])), EscapeHtml(StateOf(input.run)),
               absl::StrCat(FormatCount(step), " of ", FormatCount(input.run.steps)),
               LastValue(rows.steps, "loss"), LastValue(rows.evaluations, "loss"), best,
               SpeedOf(input), FormatSeconds(SecondsSoFar(rows)),
               FormatByteNumber(rows.steps.total("peak_rss").high),
               FormatByteNumber(rows.steps.total("nvme_written").sum),
               input.run.parts.empty() ? "" : EscapeHtml(VersionOf(input.run.parts.back()))});
  }
  return absl::StrCat("<div class=\"panel\"><h3>Results</h3>\n", table.Html(), "</div>\n");
}

// [run]: as text, not escaped; "" if the run lacks the setting.
using Values = std::vector<std::string>;

void AddMachine(const std::vector<ReportInput>& runs, std::map<std::string, Values>& all) {
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto set = [&](const char* name, std::string value) {
      Values& values = all[name];
      values.resize(runs.size());
      values[i] = std::move(value);
    };
    const RunDescription& run = runs[i].run;
    set("(parameters)", FormatCount(run.parameters));
    if (run.parts.empty()) continue;
    const RunPart& part = run.parts.back();
    set("(host)", part.host);
    set("(processor)",
        part.machine.cores > 0 ? absl::StrCat(part.machine.cores, " × ", part.machine.cpu) : "");
    set("(spillway)", VersionOf(part));
    set("(build)", part.origin.build);
  }
}

// The settings that differ, a row each; equal settings are only counted.
std::string DifferencesTable(const std::vector<ReportInput>& runs,
                             const std::vector<std::string>& names) {
  std::map<std::string, Values> all;
  AddMachine(runs, all);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].config.is_object()) continue;
    for (const auto& [name, setting] : runs[i].config.items()) {
      // "given" repeats flags whose values are settings of their own.
      if (name == "output" || name == "given" || !setting.is_object() || !setting.contains("value"))
        continue;
      Values& values = all[name];
      values.resize(runs.size());
      values[i] = SettingText(name, setting["value"]);
    }
  }
  std::vector<std::string> head = {"Setting"};
  for (size_t i = 0; i < names.size(); ++i) {
    head.push_back(absl::StrCat(Swatch(i), EscapeHtml(names[i])));
  }
  HtmlTable table(head);
  int64_t same = 0;
  for (const auto& [name, values] : all) {
    if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end()) {
      ++same;
      continue;
    }
    std::vector<std::string> cells = {absl::StrCat("<code>", EscapeHtml(name), "</code>")};
    for (const std::string& value : values) {
      cells.push_back(value.empty() ? "—" : absl::StrCat("<code>", EscapeHtml(value), "</code>"));
    }
    table.Row(cells);
  }
  const std::string note = absl::StrCat("<p class=\"note\">", FormatCount(same),
                                        " other settings are the same in all runs.</p>");
  return absl::StrCat("<h2>What differs</h2>\n<div class=\"panel\">",
                      table.empty() ? "<p>No setting does.</p>" : table.Html(), note, "</div>\n");
}

std::string ChartsGrid(const std::vector<ReportInput>& runs) {
  const auto has = [&](const ReportSeries RunRows::*series, const std::string& field) {
    return std::any_of(runs.begin(), runs.end(), [&](const ReportInput& input) {
      return ((*input.rows).*series).total(field).count > 0;
    });
  };
  std::string html =
      "<h2>Curves</h2>\n<div class=\"toolbar\" id=\"toolbar\"></div>\n<div class=\"grid lead\">\n";
  absl::StrAppend(&html,
                  ChartFigure("loss", "Training loss", "Of each step, before its update.", true));
  for (const MeasureKind& kind : MeasureKinds()) {
    const std::string name = kind.name;
    if (name == "perplexity" || !has(&RunRows::evaluations, name)) continue;
    absl::StrAppend(&html, name == "loss"
                               ? ChartFigure("held-out", "Held-out loss", "On each run's own data.")
                               : ChartFigure("measure-" + name, MeasureTitle(name),
                                             "On each run's own held-out data."));
  }
  absl::StrAppend(&html, ChartFigure("lr", "Learning rate", "As applied in each step."));
  if (has(&RunRows::steps, "grad_norm")) {
    absl::StrAppend(&html, ChartFigure("grad_norm", "Gradient norm", "Before it is clipped."));
  }
  const bool tokens = has(&RunRows::steps, "tokens_per_second");
  absl::StrAppend(&html, ChartFigure(tokens ? "tokens_per_second" : "samples_per_second",
                                     tokens ? "Tokens per second" : "Samples per second",
                                     "Without evaluations and commits."));
  return html + "</div>\n";
}

std::string ComparisonData(const std::vector<ReportInput>& runs,
                           const std::vector<std::string>& names) {
  std::string text = "{\"runs\":[";
  for (size_t i = 0; i < runs.size(); ++i) {
    absl::StrAppend(&text, i > 0 ? ",\n" : "", "{\"name\":", JsonForScript(names[i]),
                    ",\"steps\":", runs[i].rows->steps.Json(),
                    ",\"evaluations\":", runs[i].rows->evaluations.Json(), "}");
  }
  return text + "]}";
}

}  // namespace

std::string RenderComparison(const std::vector<ReportInput>& runs, double now) {
  SPILLWAY_CHECK(!runs.empty() && runs.size() <= kMostRunsCompared);
  const std::vector<std::string> names = NamesOf(runs);
  const std::string title = absl::StrJoin(names, ", ");
  const std::string body = absl::StrCat(
      "<header>\n<div class=\"brand\">SPILLWAY · RUNS COMPARED</div>\n<div class=\"title\"><h1>",
      EscapeHtml(title), "</h1></div>\n</header>\n",
      "<noscript><p class=\"note\">The charts need JavaScript; every table is here without it."
      "</p></noscript>\n",
      ResultsTable(runs, names), ChartsGrid(runs), DifferencesTable(runs, names),
      "<footer>Made by Spillway on ", FormatTime(now), ".</footer>\n");
  return FillPage({.title = title,
                   .body = body,
                   .data = ComparisonData(runs, names),
                   .script = ComparisonScript()});
}

}  // namespace spillway
