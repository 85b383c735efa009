// What the machine did, as HTML: where the time went, memory and storage. Each is empty where the
// run has nothing to say to it.
#pragma once

#include <string>

#include "engine/report/report_input.h"

namespace spillway {

std::string SpeedSection(const ReportInput& input);
std::string MemorySection(const ReportInput& input);

}  // namespace spillway
