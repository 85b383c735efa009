// The unit tests that a program is linked with, run as the seeds of a simulation are.
#pragma once

#include <cstdint>
#include <string>

namespace spillway {

// All of them, whatever is asked for. Empty: all passed; what they said is on stderr.
std::string RunUnitTests(uint64_t, uint64_t);

}  // namespace spillway
