// The parts of the table of engine/config/deepspeed_keys.h.
#pragma once

#include <vector>

#include "engine/config/deepspeed_keys.h"

namespace spillway {

std::vector<KeyRule> TrainingKeyRules();
std::vector<KeyRule> OtherKeyRules();

}  // namespace spillway
