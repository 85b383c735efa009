// The doctor's findings as a page of text, and as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "engine/inspect/doctor.h"
#include "engine/machine/machine_facts.h"
#include "nlohmann/json.hpp"

namespace spillway {

// The page: at most 80 columns, unless a path or a name without blanks is longer.
std::string DoctorPage(const std::vector<DoctorLine>& lines);

// {"ok", "warn", "bad": counts; "lines": [{section, name, mark, found, advice}]; "facts": numbers}.
nlohmann::json DoctorJson(const MachineFacts& facts, const std::vector<DoctorLine>& lines);

}  // namespace spillway
