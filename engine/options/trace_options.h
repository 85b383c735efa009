// What --trace and --trace-steps ask for. Plain values.
#pragma once

#include <cstdint>
#include <string>

namespace spillway {

struct TraceOptions {
  std::string path;        // empty: no file
  int64_t first_step = 0;  // 0: the first that this process takes
  int64_t steps = 10;
};

}  // namespace spillway
