// A machine in virtual time: what its disk, link, workers and compute have under way, how fast each
// goes on beside the others, and what follows when something ends.
//
// The disk reads one thing and writes one at a time, which share it; what goes one way over the
// link does not slow down what goes the other; workers that are busy, and who asks the disk, take
// their cores from compute.
#pragma once

#include <functional>
#include <vector>

#include "swap/plan/step_clock.h"

namespace spillway {

// One thread.
class VirtualMachine {
 public:
  using Done = std::function<void()>;
  // Each takes one thing at a time.
  enum Line {
    kCompute,
    kExchange,  // with other ranks
    kRead,      // of the disk; in bytes, as is
    kWrite,
    kInputToDevice,  // an operation copies its input, which goes before
    kInputToHost,
    kToDevice,  // what the mover copies
    kToHost,
    kDeviceUpdate,  // a separate device rounds or updates
    kFirstWorker,
  };
  // For how long something of a kind has been under way.
  struct Seconds {
    double now = 0;
    double disk = 0;
    double link = 0;  // or a separate device rounded or updated
    double exchange = 0;
    double stalled = 0;  // that nothing was computed
  };

  // The clock outlives it.
  explicit VirtualMachine(const StepClock& clock);

  int workers() const { return static_cast<int>(lines_.size()) - kFirstWorker; }
  bool busy(int line) const { return lines_[line].whole >= 0; }
  // Begins what takes `seconds` alone on the machine (or is so many bytes of the disk); `done`
  // follows, from inside Advance. REQUIRES: the line is not busy.
  void Begin(int line, double seconds, Done done);
  // How much of what the disk has under way is reads, in [0, 1].
  void ShareDisk(double reads) { reads_ = reads; }
  // Lets time pass until something ends. False where nothing is under way.
  bool Advance();
  const Seconds& seconds() const { return seconds_; }

 private:
  struct Job {
    double whole = -1;  // -1: nothing
    double left = 0;
    Done done;
  };
  double RateOf(int line) const;
  double ReadRate() const;
  double WriteRate() const;
  // Of a core, that what the disk moves takes from compute.
  double DiskShare() const;
  bool AnyWorkerBusy() const;

  const StepClock& clock_;
  std::vector<Job> lines_;
  std::vector<double> rates_;  // of Advance, by line
  std::vector<Done> ended_;    // likewise
  double reads_ = 0.5;
  Seconds seconds_;
};

}  // namespace spillway
