// A tuning for people, and as JSON.
#pragma once

#include <string>

#include "engine/tuning/tune.h"
#include "nlohmann/json.hpp"

namespace spillway {

// For people, at most 80 columns wide but for paths; and all of it as JSON.
std::string TuneText(const TuneResult& result);
nlohmann::json TuneJson(const TuneResult& result);

}  // namespace spillway
