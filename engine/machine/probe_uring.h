// What io_uring offers this process, found out by trying.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace spillway {

struct UringFacts {
  // OK where a ring can be made and used; else the cause and the remedy (io/uring_refusal.h).
  absl::Status status = {};
  std::string flags = {};  // the set-up flags this kernel took: "DEFER_TASKRUN, ..."
  // The error of registering so many bytes as fixed buffers; 0: it works.
  int register_error = 0;
  uint64_t registered_bytes = 0;
};

// Makes a ring or two and takes them away again. Any thread; a few milliseconds.
UringFacts ProbeUring();

}  // namespace spillway
