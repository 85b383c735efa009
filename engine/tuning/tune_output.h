// A tuning as text and as JSON.
#pragma once

#include <string>

#include "engine/tuning/tune.h"
#include "nlohmann/json.hpp"

namespace spillway {

// The text, at most 80 columns wide except for paths; and everything as JSON.
std::string TuneText(const TuneResult& result);
nlohmann::json TuneJson(const TuneResult& result);

}  // namespace spillway
