// Many seeds, one after another, and how to get back to one that fails.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace spillway {

// Runs seeds [first, first + count), or as many as SPILLWAY_SIM_SEEDS says, or the one that
// SPILLWAY_SIM_SEED names; SPILLWAY_SIM_TRACE=1 prints what happens. Stops at the first that
// fails, for which `run` says why, and returns that with the command that runs it alone, `program`
// in front; else empty. When the program dies in a seed (a check, a sanitizer, a hang) that command
// is printed, too.
std::string RunSeeds(const char* program, uint64_t first, uint64_t count,
                     const std::function<std::string(uint64_t seed, bool print_trace)>& run);

// Of the seeds that a shard has in CI, as many as are run here: a quarter, and all where
// SPILLWAY_ALL_SEEDS is set.
uint64_t SeedsHere(uint64_t all);

// RunSeeds of RunSimSeed.
std::string RunSimSeeds(uint64_t first, uint64_t count);

// Another one each time: the seeds from it on have never run. A failure says which.
uint64_t FreshSeed();

}  // namespace spillway
