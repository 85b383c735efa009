// Counts the work of readers on this thread in steps of about equal time: points decoded, bytes
// read, characters of pointers. Tests and fuzzers compare it with the size of the input, so that no
// input can stall a reader.
#pragma once

#include <cstdint>

namespace spillway {

class WorkCount {
 public:
  static void Add(uint64_t steps) { steps_ += steps; }
  static uint64_t now() { return steps_; }

 private:
  static inline thread_local uint64_t steps_ = 0;
};

}  // namespace spillway
