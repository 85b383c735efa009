// The first sections of the report's page: the run, its main figures, and its learning curves.
// HTML.
#pragma once

#include <string>
#include <vector>

#include "engine/report/report_input.h"

namespace spillway {

// The name of OUTPUT. Not escaped.
std::string ReportTitle(const ReportInput& input);
// The folders of OUTPUT's path, ending with OUTPUT.
std::vector<std::string> PathParts(const ReportInput& input);
// The heading of a measure of MeasureKinds: "Accuracy", "BLEU".
std::string MeasureTitle(const std::string& name);

std::string HeaderSection(const ReportInput& input);
std::string CardsSection(const ReportInput& input);
// Empty if the run has no data for it.
std::string LearningSection(const ReportInput& input);
std::string SamplesSection(const ReportInput& input);

}  // namespace spillway
