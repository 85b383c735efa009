// The parts of the report's page, as HTML. engine/report/report.cc puts them together. Each is
// empty where the run has nothing to say to it.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "engine/report/report.h"

namespace spillway {

// "gpt2" of --model /models/gpt2/, or the name of OUTPUT. Not escaped.
std::string ReportTitle(const ReportInput& input);

std::string HeaderSection(const ReportInput& input);
std::string CardsSection(const ReportInput& input);
std::string LearningSection(const ReportInput& input);
std::string SpeedSection(const ReportInput& input);
std::string TimelineSection(const ReportInput& input);
std::string MemorySection(const ReportInput& input);
std::string PlanSection(const ReportInput& input);
std::string HistorySection(const ReportInput& input);
std::string ConfigurationSection(const ReportInput& input);

// A place for a chart of engine/report/report.js, and what it shows in a sentence.
std::string ChartFigure(absl::string_view id, absl::string_view title, absl::string_view text,
                        bool wide = false);

}  // namespace spillway
