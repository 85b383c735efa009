// The program that computes a run, and its command line. Plain values.
#pragma once

#include <string>
#include <vector>

namespace spillway {

struct RunOrigin {
  std::string version;  // "0.1.0"
  std::string commit;   // of the sources: 12 digits, with "+" if they were changed, or "unknown"
  std::string build;    // "Release, GCC 12.2.0, without CUDA"
  std::vector<std::string> arguments;  // command line with the program's name
};

}  // namespace spillway
