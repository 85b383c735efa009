// The files of engine/report/, built into the program (cmake/SpillwayEmbed.cmake).
#pragma once

#include "absl/strings/string_view.h"

namespace spillway {

absl::string_view ReportTemplate();    // report.html, with {{name}} for values
absl::string_view ReportStyle();       // report.css
absl::string_view ReportCharts();      // chart.js
absl::string_view ReportScript();      // report.js
absl::string_view ComparisonScript();  // compare.js

}  // namespace spillway
