// Several runs on one self-contained page: their figures side by side, their curves in common
// charts, and the settings that differ (docs/REPORT.md). Pure functions of values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/report/report_input.h"

namespace spillway {

// The number of colours for curves.
inline constexpr size_t kMostRunsCompared = 16;

// REQUIRES: 1 to kMostRunsCompared runs. `now`: seconds since 1970.
std::string RenderComparison(const std::vector<ReportInput>& runs, double now);

}  // namespace spillway
