// SIGTERM, SIGINT and SIGUSR1 ask a run to commit and stop.
#pragma once

namespace spillway {

// Handles the three signals while alive; a second one of the same kind ends the
// process at once, as without us. One at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The signal that came, 0 if none. Any thread.
  static int received();
  // "SIGTERM".
  static const char* Name(int signal);
};

}  // namespace spillway
