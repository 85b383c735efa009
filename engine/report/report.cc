#include "engine/report/report.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "engine/report/machine_sections.h"
#include "engine/report/overview_sections.h"
#include "engine/report/report_assets.h"
#include "engine/report/report_html.h"
#include "engine/report/run_sections.h"
#include "engine/report/timeline_section.h"
#include "io/base/check.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr size_t kMostCommitTicks = 400;

// Times at which the page of an active run reloads, and at which it counts as abandoned.
nlohmann::json RunningData(const ReportInput& input) {
  constexpr double kLeastPause = 3, kMostPause = 30, kStaleSeconds = 300, kStaleSteps = 5;
  const double age = input.now - input.run.parts.back().started;
  const double step = input.rows->steps.MedianOfMeans("seconds");
  return {{"now", input.now},
          {"reload_seconds", std::clamp(age / 10, kLeastPause, kMostPause)},
          {"stale_seconds", std::max(kStaleSeconds, kStaleSteps * step)}};
}

// The data of the page's script.
std::string ChartData(const ReportInput& input) {
  const RunDescription& run = input.run;
  nlohmann::json rest;
  rest["budgets"] = {{"device", run.device_budget_bytes}, {"host", run.host_budget_bytes}};
  rest["first_step"] = 1;
  rest["resumed_at"] = nlohmann::json::array();
  for (const RunPart& part : run.parts) {
    if (part.first_step > 1) rest["resumed_at"].push_back(part.first_step);
  }
  rest["commits"] = nlohmann::json::array();
  const size_t every = run.commits.size() / kMostCommitTicks + 1;
  for (size_t i = 0; i < run.commits.size(); i += every) {
    rest["commits"].push_back(run.commits[i].step);
  }
  rest["clip"] = run.clip;
  if (!run.parts.empty() && run.parts.back().state == "running") {
    rest["running"] = RunningData(input);
  }
  std::string text = JsonForScript(rest);
  text.pop_back();
  return absl::StrCat(text, ",\n\"steps\":", input.rows->steps.Json(),
                      ",\n\"evaluations\":", input.rows->evaluations.Json(), "}");
}

// Replaces every {{name}} in `text`; inserted values are not searched again.
std::string FillIn(absl::string_view text, const std::map<std::string, std::string>& values) {
  std::string out;
  while (true) {
    const size_t begin = text.find("{{");
    absl::StrAppend(&out, text.substr(0, begin));
    if (begin == absl::string_view::npos) return out;
    const size_t end = text.find("}}", begin);
    SPILLWAY_CHECK(end != absl::string_view::npos);
    const auto value = values.find(std::string(text.substr(begin + 2, end - begin - 2)));
    SPILLWAY_CHECK(value != values.end());
    absl::StrAppend(&out, value->second);
    text.remove_prefix(end + 2);
  }
}

}  // namespace

std::string RenderReport(const ReportInput& input) {
  const std::string body = absl::StrCat(
      HeaderSection(input), CardsSection(input),
      "<noscript><p class=\"note\">The charts need JavaScript; every table is here without it."
      "</p></noscript>\n",
      LearningSection(input), SamplesSection(input), SpeedSection(input), TimelineSection(input),
      MemorySection(input), PlanSection(input), HistorySection(input), ConfigurationSection(input),
      "<footer>Made by Spillway on ", FormatTime(input.now), " from the files in ",
      EscapeHtml(input.output), ".</footer>\n");
  return FillPage({.title = ReportTitle(input),
                   .body = body,
                   .data = ChartData(input),
                   .script = ReportScript()});
}

std::string FillPage(const ReportPage& page) {
  return FillIn(ReportTemplate(), {{"title", EscapeHtml(page.title + " · Spillway")},
                                   {"style", std::string(ReportStyle())},
                                   {"body", page.body},
                                   {"data", page.data},
                                   {"chart", std::string(ReportCharts())},
                                   {"script", std::string(page.script)}});
}

absl::Status WriteReport(const ReportInput& input, const std::string& path) {
  return WriteFileAtomically(path, RenderReport(input), FileAccess::kShared);
}

}  // namespace spillway
