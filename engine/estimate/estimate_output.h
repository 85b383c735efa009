// An estimate as JSON, and for people.
#pragma once

#include <string>

#include "engine/estimate/estimate.h"
#include "nlohmann/json.hpp"

namespace spillway {

nlohmann::json EstimateJson(const Estimate& estimate);
// For people: lines of at most 80 columns, and a table.
std::string EstimateText(const Estimate& estimate);

}  // namespace spillway
