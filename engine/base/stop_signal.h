// SIGTERM, SIGINT, SIGUSR1 and SIGHUP ask a run to commit and stop.
#pragma once

#include <vector>

#include "absl/status/status.h"

namespace spillway {

// Handles these signals while alive, even if the parent process has blocked them. SIGHUP stays
// ignored if it is ignored at construction (nohup). A second signal of the same kind ends the
// process at once, as without a handler; but not SIGHUP, which a closing terminal sends more than
// once (the kernel to its processes, the shell to its jobs). A nested object has no effect. One
// thread.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The signals that a StopSignal handles, or would handle if constructed now.
  static std::vector<int> Handled();

  // The received signal; 0 if there is none, or no StopSignal is alive. Any thread.
  static int received();
  // OK, or kCancelled after a signal: "stopped by SIGTERM". Any thread.
  static absl::Status Check();
  // Acts as if the signal had been received here; another rank received it.
  static void Receive(int signal);
  // "SIGTERM".
  static const char* Name(int signal);
};

// Delays a stop for work that is usually short and then worth finishing, but may take long, such as
// decoding a picture. Work continues for a while after a signal is first seen. One thread.
class StopPatience {
 public:
  // Whether to abandon the work.
  bool Ends();

  // The delay. Tests change it.
  static inline double seconds = 0.7;

 private:
  double seen_at_ = 0;  // by MonotonicSeconds; 0: not yet
};

}  // namespace spillway
