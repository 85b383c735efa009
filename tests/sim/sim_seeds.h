// Many seeds, one after another, and how to get back to one that fails.
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/sim_run.h"

namespace spillway {

// Runs seeds [first, first + count), or as many as SPILLWAY_SIM_SEEDS says, or the one that
// SPILLWAY_SIM_SEED names; SPILLWAY_SIM_TRACE=1 prints what happens. Stops at the first that
// fails, and returns what it says, with the command that runs it alone; else empty. When
// the program dies in a seed (a check, a sanitizer, a hang) that command is printed, too.
std::string RunSimSeeds(uint64_t first, uint64_t count, SimTally* tally);

}  // namespace spillway
