// HTML section of one step by resource: the bytes it moved, and the wear of the drive.
#pragma once

#include <string>

#include "engine/report/report_input.h"

namespace spillway {

// Empty if no step was traced.
std::string TimelineSection(const ReportInput& input);

}  // namespace spillway
