// How much readers have done on this thread, in steps of about the same time: points decoded, bytes
// read, characters of pointers put together. Tests and fuzzers hold it against the size of what was
// read: an input that makes a reader do far more is one by which it can be held up.
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
