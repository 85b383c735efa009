// An estimate as JSON and as text.
#pragma once

#include <string>

#include "engine/estimate/estimate.h"
#include "nlohmann/json.hpp"

namespace spillway {

nlohmann::json EstimateJson(const Estimate& estimate);
// The text: lines of at most 80 columns, and a table.
std::string EstimateText(const Estimate& estimate);

}  // namespace spillway
