// A machine in virtual time: the work that its disk, link, workers and compute have under way, how
// fast each proceeds beside the others, and what to call when it ends.
//
// The disk does one read and one write at a time, which share its rate. Copies in one direction of
// the link do not slow down those in the other. Busy workers, and the processor's part of
// transfers, take their cores from compute.
#pragma once

#include <functional>
#include <vector>

#include "swap/plan/step_clock.h"

namespace spillway {

// One thread.
class VirtualMachine {
 public:
  using Done = std::function<void()>;
  // A line does one piece of work at a time.
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
  // The time so far, and for how much of it work of each kind was under way.
  struct Seconds {
    double now = 0;
    double disk = 0;
    double link = 0;  // or a separate device rounded or updated
    double exchange = 0;
    double stalled = 0;  // without any computation
  };

  // The clock outlives it.
  explicit VirtualMachine(const StepClock& clock);

  int workers() const { return static_cast<int>(lines_.size()) - kFirstWorker; }
  bool busy(int line) const { return lines_[line].whole >= 0; }
  // Begins work that takes `seconds` alone on the machine; on kRead and kWrite, `seconds` is a
  // number of bytes. `done` is called at its end, from inside Advance. REQUIRES: the line is not
  // busy.
  void Begin(int line, double seconds, Done done);
  // The share of reads in the bytes that the disk has under way, in [0, 1].
  void ShareDisk(double reads) { reads_ = reads; }
  // Lets time pass until any work ends. False where no work is under way.
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
  // The share of a core that the disk's transfers take from compute.
  double DiskShare() const;
  bool AnyWorkerBusy() const;

  const StepClock& clock_;
  std::vector<Job> lines_;
  std::vector<double> rates_;  // of Advance, by line
  std::vector<Done> ended_;    // of Advance
  double reads_ = 0.5;
  Seconds seconds_;
};

}  // namespace spillway
