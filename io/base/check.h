// SPILLWAY_CHECK: for what we did wrong, never for what the world did.
#pragma once

namespace spillway {

// Prints the failed condition with its place and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace spillway

#define SPILLWAY_CHECK(condition)                              \
  do {                                                         \
    if (!(condition)) [[unlikely]] {                           \
      ::spillway::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                          \
  } while (false)
