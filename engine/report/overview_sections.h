// What comes first on the report's page: the run, its figures at a glance, how it learned. HTML.
#pragma once

#include <string>
#include <vector>

#include "engine/report/report_input.h"

namespace spillway {

// The name of OUTPUT. Not escaped.
std::string ReportTitle(const ReportInput& input);
// The folders of OUTPUT's path, it last.
std::vector<std::string> PathParts(const ReportInput& input);
// "Accuracy", "BLEU": of a measure of MeasureKinds, as a heading.
std::string MeasureTitle(const std::string& name);

std::string HeaderSection(const ReportInput& input);
std::string CardsSection(const ReportInput& input);
// Empty where the run has nothing to say to it.
std::string LearningSection(const ReportInput& input);
std::string SamplesSection(const ReportInput& input);

}  // namespace spillway
