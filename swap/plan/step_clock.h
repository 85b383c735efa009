// How long the parts of a step take on one machine: what a plan is timed with.
#pragma once

#include <optional>
#include <vector>

namespace spillway {

// 0 for no bytes. REQUIRES: a positive rate for any.
double SecondsAt(double bytes_per_second, double bytes);

struct DiskRates {
  double read_bytes_per_second = 0;
  double write_bytes_per_second = 0;
  double mixed_bytes_per_second = 0;  // both together, half of each
  // Of a processor, for every byte that is moved: its own part of it, the kernel's above all.
  double processor_seconds_per_byte = 0;

  // Of `read_bytes` and `written_bytes`, both at once.
  double Seconds(double read_bytes, double written_bytes) const;

  friend bool operator==(const DiskRates&, const DiskRates&) = default;
};

// The link between the host's memory and that of a device of its own. What goes one way does
// not slow down what goes the other.
struct LinkRates {
  double to_device_bytes_per_second = 0;
  double to_host_bytes_per_second = 0;

  double SecondsToDevice(double bytes) const;
  double SecondsToHost(double bytes) const;

  friend bool operator==(const LinkRates&, const LinkRates&) = default;
};

// With several ranks. Then the schedule's operations are collectives, what a rank and the others
// say to one another, one after the other on a thread of its own; beside it another line computes
// whole units. Each waits for the other where it needs what that has done.
struct CollectiveClock {
  struct Computation {
    double seconds = 0;    // alone on the machine
    int needs_ops = 0;     // operations of the step's schedule that must be behind before it begins
    bool forward = false;  // comes before the loss
  };
  std::vector<Computation> computations;  // of a step, in order
  std::vector<double> seconds;            // [op of the schedule] that is exchanged with others
  std::vector<int> after;                 // [op of the schedule] computations before it may begin
};

struct StepClock {
  // Need not be set where nothing is read or written. Its processor's seconds are taken from
  // compute: 0 where it leaves a core to who asks for them.
  DiskRates disk;
  LinkRates link;                      // likewise, where nothing is copied
  double update_bytes_per_second = 0;  // of all workers together
  // Of what was read, that all workers together check, and put into its place where it comes from
  // the model's files: of units that are `in_place`, [unit], or none. 0: in no time.
  double check_bytes_per_second = 0;
  double place_bytes_per_second = 0;
  std::vector<bool> in_place;
  // Of the memory of a separate device, where that rounds and updates; need not be set elsewhere.
  double device_update_bytes_per_second = 0;
  // Of the time that workers take, how much is taken from compute: 0 with cores of their own
  // for all of them, workers / cores where compute uses every core.
  double shared_cores = 0;
  // How many those are. Compute waits for the slowest of its threads: a worker that is busy alone,
  // as where updates come as slowly as the disk has them, keeps it up as long as all of them would.
  double workers = 1;
  // [op of the schedule] of compute, alone on the machine; empty with several ranks, which have:
  std::vector<double> op_seconds;
  std::optional<CollectiveClock> collective = std::nullopt;
  // Of its own unit the first operation reads so much (FirstRead); with one rank.
  double first_read_share = 1;
};

}  // namespace spillway
