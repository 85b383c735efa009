// OUTPUT/report.html: a run on one self-contained page, which needs no network and no other file
// (docs/REPORT.md). Pure functions of values, except WriteReport.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/report/report_input.h"

namespace spillway {

std::string RenderReport(const ReportInput& input);

// The parts that differ between pages.
struct ReportPage {
  std::string title;  // not escaped
  std::string body, data;
  absl::string_view script;
};
std::string FillPage(const ReportPage& page);

// Replaces the file at `path` atomically: a reader sees the old page or the new one.
absl::Status WriteReport(const ReportInput& input, const std::string& path);

}  // namespace spillway
