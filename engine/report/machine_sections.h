// HTML sections about the machine: distribution of time, memory and storage. A section is empty if
// the run has no data for it.
#pragma once

#include <string>

#include "engine/report/report_input.h"

namespace spillway {

std::string SpeedSection(const ReportInput& input);
std::string MemorySection(const ReportInput& input);

}  // namespace spillway
