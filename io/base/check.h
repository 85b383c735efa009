// SPILLWAY_CHECK: for our own bugs, never for failures of the outside world.
#pragma once

namespace spillway {

// Prints the failed condition with file and line, and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace spillway

#define SPILLWAY_CHECK(condition)                              \
  do {                                                         \
    if (!(condition)) [[unlikely]] {                           \
      ::spillway::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                          \
  } while (false)
