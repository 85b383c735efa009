// One step drawn by resource, as HTML: what it moved, and what that does to the drive.
#pragma once

#include <string>

#include "engine/report/report_input.h"

namespace spillway {

// Empty where no step was traced.
std::string TimelineSection(const ReportInput& input);

}  // namespace spillway
