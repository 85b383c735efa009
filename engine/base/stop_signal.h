// SIGTERM, SIGINT and SIGUSR1 ask a run to commit and stop.
#pragma once

#include "absl/status/status.h"

namespace spillway {

// Handles the three signals while alive, also where whoever started the process holds them back;
// a second one of the same kind ends the process at once, as without us. One inside another
// changes nothing. One thread.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The signal that came, 0 if none, or if nobody handles any now. Any thread.
  static int received();
  // OK, or where one came kCancelled: "stopped by SIGTERM". Any thread.
  static absl::Status Check();
  // From now on as if it had come here: another rank's.
  static void Receive(int signal);
  // "SIGTERM".
  static const char* Name(int signal);
};

}  // namespace spillway
