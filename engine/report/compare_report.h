// Several runs on one page that needs nothing else: their figures side by side, their curves over
// one another, and what of their settings differs (docs/REPORT.md). Pure functions of values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/report/report_input.h"

namespace spillway {

// Curves have as many colours; more runs nobody tells apart.
inline constexpr size_t kMostRunsCompared = 16;

// REQUIRES: there are runs, and at most kMostRunsCompared. `now`: seconds since 1970.
std::string RenderComparison(const std::vector<ReportInput>& runs, double now);

}  // namespace spillway
