// For tests that compare times: they say something where nothing else takes the processor.
#pragma once

#include <cstdlib>
#include <thread>

namespace spillway {

// False under a sanitizer, and where others run: then such a test is skipped.
inline bool MachineIsQuiet() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  double load = 0;
  return getloadavg(&load, 1) == 1 && load < 0.75 * std::thread::hardware_concurrency();
#endif
}

}  // namespace spillway
