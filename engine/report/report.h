// OUTPUT/report.html: a run on one page that needs nothing else, no network and no other file
// (docs/REPORT.md). Pure functions of values but for WriteReport.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/report/report_input.h"

namespace spillway {

std::string RenderReport(const ReportInput& input);

// The parts of a page that differ from one to another.
struct ReportPage {
  std::string title;  // not escaped
  std::string body, data;
  absl::string_view script;
};
std::string FillPage(const ReportPage& page);

// Replaces the file at `path` at once: a reader sees the old page or the new one.
absl::Status WriteReport(const ReportInput& input, const std::string& path);

}  // namespace spillway
