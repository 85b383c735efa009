// Unit tests in place of seeds, for a mutant (tests/sim/mutant_main.cc) of what no simulation sees.
#include "tests/sim/mutant_tests.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace spillway {

std::string RunUnitTests(uint64_t, uint64_t) {
  dup2(STDERR_FILENO, STDOUT_FILENO);
  testing::InitGoogleTest();
  return RUN_ALL_TESTS() == 0 ? "" : "unit tests failed\n";
}

}  // namespace spillway
