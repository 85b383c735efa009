// What comes first on the report's page: the run, its figures at a glance, how it learned. HTML.
#pragma once

#include <string>

#include "engine/report/report_input.h"

namespace spillway {

// "gpt2" of --model /models/gpt2/, or the name of OUTPUT. Not escaped.
std::string ReportTitle(const ReportInput& input);

std::string HeaderSection(const ReportInput& input);
std::string CardsSection(const ReportInput& input);
// Empty where the run has nothing to say to it.
std::string LearningSection(const ReportInput& input);

}  // namespace spillway
