// Tests which features of io_uring this process can use.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace spillway {

struct UringFacts {
  // OK if a ring can be created and used; else the cause and the remedy (io/uring_refusal.h).
  absl::Status status = {};
  std::string flags = {};  // the set-up flags this kernel took: "DEFER_TASKRUN, ..."
  // The errno of registering fixed buffers of this size; 0: it works.
  int register_error = 0;
  uint64_t registered_bytes = 0;
};

// Creates and destroys a ring or two. Any thread; a few milliseconds.
UringFacts ProbeUring();

}  // namespace spillway
