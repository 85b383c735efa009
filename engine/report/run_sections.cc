#include "engine/report/run_sections.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/shell_line.h"
#include "engine/report/report_html.h"
#include "io/base/format_bytes.h"

namespace spillway {
namespace {

constexpr absl::string_view kTiers[] = {"device", "host", "nvme"};

absl::string_view TierLabel(absl::string_view tier) { return tier == "nvme" ? "NVMe" : tier; }

std::string StateCell(const PlannedState& state) {
  if (state.bytes == 0) return "—";
  return absl::StrCat(FormatBytes(state.bytes), "<span class=\"tier\">",
                      EscapeHtml(TierLabel(state.tier)), "</span>");
}

bool Alike(const PlannedUnit& a, const PlannedUnit& b) {
  const auto alike = [](const PlannedState& x, const PlannedState& y) {
    return x.bytes == y.bytes && x.tier == y.tier;
  };
  return a.parameters == b.parameters && alike(a.weights, b.weights) &&
         alike(a.optimizer, b.optimizer) && alike(a.gradients, b.gradients);
}

// Bytes at rest, by kind and tier.
std::string TierTable(const RunDescription& run) {
  HtmlTable table({"", "Device", "Host", "NVMe", "All"}, {1, 2, 3, 4});
  uint64_t sums[4] = {};
  const auto add = [&](const std::string& name, PlannedState PlannedUnit::*kind) {
    uint64_t bytes[4] = {};
    for (const PlannedUnit& unit : run.units) {
      const PlannedState& state = unit.*kind;
      for (int tier = 0; tier < 3; ++tier) {
        if (state.tier == kTiers[tier]) bytes[tier] += state.bytes;
      }
      bytes[3] += state.bytes;
    }
    if (bytes[3] == 0) return;
    std::vector<std::string> cells = {name};
    for (int i = 0; i < 4; ++i) {
      cells.push_back(bytes[i] > 0 ? FormatBytes(bytes[i]) : "—");
      sums[i] += bytes[i];
    }
    table.Row(cells);
  };
  std::string planes;
  for (size_t i = 1; i < run.planes.size(); ++i) {
    absl::StrAppend(&planes, i > 1 ? ", " : " <span class=\"note\">",
                    EscapeHtml(run.planes[i].first));
  }
  if (!planes.empty()) absl::StrAppend(&planes, "</span>");
  add("weights", &PlannedUnit::weights);
  add(absl::StrCat("optimizer state", planes), &PlannedUnit::optimizer);
  add("gradients", &PlannedUnit::gradients);
  std::vector<std::string> total = {"all"};
  for (const uint64_t sum : sums) total.push_back(sum > 0 ? FormatBytes(sum) : "—");
  table.Row(total, "total");
  return table.Html();
}

std::string UnitTable(const RunDescription& run) {
  HtmlTable table({"Units", "Parameters each", "Weights", "Optimizer state", "Gradients"},
                  {1, 2, 3, 4});
  for (size_t first = 0; first < run.units.size();) {
    size_t last = first;
    while (last + 1 < run.units.size() && Alike(run.units[first], run.units[last + 1])) ++last;
    const PlannedUnit& unit = run.units[first];
    std::string name = EscapeHtml(unit.name);
    if (last > first) {
      absl::StrAppend(&name, " to ", EscapeHtml(run.units[last].name), " (", last - first + 1, ")");
    }
    table.Row({name, FormatCount(unit.parameters), StateCell(unit.weights),
               StateCell(unit.optimizer), StateCell(unit.gradients)});
    first = last + 1;
  }
  return table.Html();
}

// The command lines, if one differs from that in the page's header.
std::string CommandsPart(const RunDescription& run) {
  std::string lines;
  for (const RunPart& part : run.parts) {
    const std::string command = ShellLine(part.origin.arguments);
    if (command.empty() || command == ShellLine(run.parts.back().origin.arguments)) continue;
    absl::StrAppend(&lines, FormatTime(part.started), "  ", command, "\n");
  }
  if (lines.empty()) return "";
  return absl::StrCat("<details><summary>Command lines of earlier processes</summary>\n<pre>",
                      EscapeHtml(lines), "</pre></details>\n");
}

std::string PartsTable(const RunDescription& run) {
  HtmlTable table({"Started", "Steps", "Ended", "How", "Host", "Spillway"}, {1});
  for (const RunPart& part : run.parts) {
    std::string how = part.state;
    if (part.state == "stopped") how = absl::StrCat("stopped by ", part.message);
    if (part.state == "failed") how = absl::StrCat("failed: ", part.message);
    if (part.state == "killed") how = "ended unexpectedly";
    const std::string steps =
        part.last_step < part.first_step
            ? "none"
            : absl::StrCat(FormatCount(part.first_step), " – ", FormatCount(part.last_step));
    table.Row({FormatTime(part.started), steps, part.ended > 0 ? FormatTime(part.ended) : "—",
               EscapeHtml(how), EscapeHtml(part.host), EscapeHtml(VersionOf(part))});
  }
  return table.Html() + CommandsPart(run);
}

std::string CommitsPanel(const RunDescription& run) {
  constexpr size_t kShown = 10;
  HtmlTable table({"Step", "Begun"}, {0});
  const size_t shown = std::min(kShown, run.commits.size());
  for (size_t i = 0; i < shown; ++i) {
    const RunCommit& commit = run.commits[run.commits.size() - 1 - i];
    table.Row({FormatCount(commit.step), commit.time > 0 ? FormatTime(commit.time) : "—"});
  }
  if (table.empty()) {
    return "<div class=\"panel\"><h3>Commits</h3>\n<p class=\"note\">None so far.</p></div>\n";
  }
  const std::string note = run.commit_count > static_cast<int64_t>(shown)
                               ? absl::StrCat("<p class=\"note\">The last ", shown, " of ",
                                              FormatCount(run.commit_count), ".</p>")
                               : "";
  return absl::StrCat("<div class=\"panel\"><h3>Commits</h3>\n", table.Html(), note, "</div>\n");
}

// A dozen points of the curves, for readers who want numbers, or have no JavaScript.
std::string StepsPanel(const ReportInput& input) {
  constexpr size_t kMost = 12;
  const ReportSeries& series = input.rows->steps;
  const auto steps = series.Steps();
  if (steps.empty()) return "";
  const auto loss = series.Means("loss"), norm = series.Means("grad_norm"), lr = series.Means("lr"),
             speed = series.Means("tokens_per_second"), seconds = series.Means("seconds");
  HtmlTable table({"Step", "Loss", "Gradient norm", "Learning rate", "Tokens/s", "Seconds"},
                  {0, 1, 2, 3, 4, 5});
  const auto number = [](const std::optional<double>& value) {
    return value ? FormatNumber(*value) : std::string("—");
  };
  const size_t shown = std::min(kMost, steps.size());
  for (size_t i = 0; i < shown; ++i) {
    const size_t at = shown > 1 ? i * (steps.size() - 1) / (shown - 1) : 0;
    table.Row({FormatCount(steps[at]), number(loss[at]), number(norm[at]), number(lr[at]),
               number(speed[at]), number(seconds[at])});
  }
  std::string note;
  if (series.rows_per_bucket() > 1) {
    note = absl::StrCat("<p class=\"note\">Means over the ", series.rows_per_bucket(),
                        " steps up to the one named; metrics.jsonl has each.</p>");
  }
  return absl::StrCat("<div class=\"panel\"><h3>Steps in numbers</h3>\n", table.Html(), note,
                      "</div>\n");
}

}  // namespace

std::string PlanSection(const ReportInput& input) {
  const RunDescription& run = input.run;
  if (run.units.empty()) return "";
  std::string budgets = absl::StrCat("  budgets    ", FormatBytes(run.device_budget_bytes),
                                     " device, ", FormatBytes(run.host_budget_bytes), " host\n");
  if (run.computing_bytes > 0) {
    absl::StrAppend(&budgets, "  computing  ", FormatBytes(run.computing_bytes),
                    " of device memory at its peak\n");
  }
  return absl::StrCat(
      "<h2>Plan", OfRank(run),
      "</h2>\n<div class=\"panel\"><h3>Where the state lives between its uses</h3>\n",
      TierTable(run), "</div>\n<div class=\"panel\"><h3>Summary</h3>\n<pre>",
      EscapeHtml(run.plan_summary + budgets),
      "</pre></div>\n<div class=\"panel long\"><h3>By unit</h3>\n", UnitTable(run), "</div>\n");
}

std::string HistorySection(const ReportInput& input) {
  return absl::StrCat("<h2>History</h2>\n<div class=\"panel\"><h3>Processes</h3>\n",
                      PartsTable(input.run), "</div>\n", CommitsPanel(input.run),
                      StepsPanel(input));
}

std::string ConfigurationSection(const ReportInput& input) {
  if (!input.config.is_object() || input.config.empty()) return "";
  HtmlTable changed({"Setting", "Value", "From"}), defaults({"Setting", "Value", "From"});
  for (const auto& [name, setting] : input.config.items()) {
    // The flags are among the settings.
    if (!setting.is_object() || !setting.contains("value") || name == "given") continue;
    const std::string source = TextOf(setting.value("source", nlohmann::json("")));
    (source == "default" ? defaults : changed)
        .Row({absl::StrCat("<code>", EscapeHtml(name), "</code>"),
              absl::StrCat("<code>", EscapeHtml(SettingText(name, setting["value"])), "</code>"),
              EscapeHtml(source)});
  }
  std::string html = "<h2>Configuration</h2>\n<div class=\"panel long\">\n";
  if (!changed.empty()) absl::StrAppend(&html, changed.Html());
  if (!defaults.empty()) {
    absl::StrAppend(&html, "<details><summary>Defaults</summary>\n", defaults.Html(),
                    "</details>\n");
  }
  return absl::StrCat(html, "</div>\n");
}

std::string SettingText(const std::string& name, const nlohmann::json& value) {
  if (!absl::EndsWith(name, "-memory") || !value.is_number_unsigned()) return TextOf(value);
  const uint64_t bytes = value.get<uint64_t>();
  return bytes > 0 ? FormatBytes(bytes) : "what is free";
}

}  // namespace spillway
