// For tests that compare times: they say something where nothing else takes the processor.
#pragma once

#include <cstdlib>
#include <thread>

#include "tests/sanitizers.h"

namespace spillway {

// False under a sanitizer, and where others run: then such a test is skipped.
inline bool MachineIsQuiet() {
  double load = 0;
  return !kAddressSanitizer && !kThreadSanitizer && getloadavg(&load, 1) == 1 &&
         load < 0.75 * std::thread::hardware_concurrency();
}

}  // namespace spillway
