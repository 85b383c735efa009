// The parts of the table of engine/deepspeed_keys.h.
#pragma once

#include <vector>

#include "engine/deepspeed_keys.h"

namespace spillway {

std::vector<KeyRule> TrainingKeyRules();
std::vector<KeyRule> OtherKeyRules();

}  // namespace spillway
