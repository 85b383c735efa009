// SIGTERM, SIGINT, SIGUSR1 and SIGHUP ask a run to commit and stop.
#pragma once

#include <vector>

#include "absl/status/status.h"

namespace spillway {

// Handles these signals while alive, also where whoever started the process has blocked them.
// SIGHUP stays ignored where it is ignored when the object is made (nohup). A second signal of the
// same kind ends the process at once, as without a handler; but not SIGHUP, which a terminal that
// closes sends more than once (the kernel to its processes, the shell to its jobs). One object
// inside another changes nothing. One thread.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The signals that a StopSignal made now would handle, or that are handled already.
  static std::vector<int> Handled();

  // The signal that came, 0 if none, or if nobody handles any now. Any thread.
  static int received();
  // OK, or where one came kCancelled: "stopped by SIGTERM". Any thread.
  static absl::Status Check();
  // From now on as if it had come here: another rank's.
  static void Receive(int signal);
  // "SIGTERM".
  static const char* Name(int signal);
};

// For a piece of work that nearly always is over at once, and is to be finished then, but may take
// long: the decoding of a picture. It goes on for a while after it has first seen a signal. One
// thread.
class StopPatience {
 public:
  // Whether the work is to be given up.
  bool Ends();

  // How long it goes on. A test sets it.
  static inline double seconds = 0.7;

 private:
  double seen_at_ = 0;  // by MonotonicSeconds; 0: there was none
};

}  // namespace spillway
