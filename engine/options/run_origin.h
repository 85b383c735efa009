// The program that computes a run, and its command line. Plain values.
#pragma once

#include <string>
#include <vector>

namespace spillway {

struct RunOrigin {
  std::string version;  // "0.1.0"
  std::string commit;   // of the sources, 12 digits, with "+" if they were changed; "unknown"
  std::string build;    // "Release, GCC 12.2.0, without CUDA"
  std::vector<std::string> arguments;  // the command line, from the program's name on
};

}  // namespace spillway
