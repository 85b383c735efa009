// The rates and times of one machine by which the planner times the parts of a step.
#pragma once

#include <optional>
#include <vector>

namespace spillway {

// The seconds that `bytes` take; 0 for no bytes. REQUIRES: a positive rate where there are bytes.
double SecondsAt(double bytes_per_second, double bytes);

struct DiskRates {
  double read_bytes_per_second = 0;
  double write_bytes_per_second = 0;
  double mixed_bytes_per_second = 0;  // reads and writes together, half of each
  // The time that a processor spends on each byte moved, mostly in the kernel.
  double processor_seconds_per_byte = 0;

  // The seconds that reading and writing so many bytes take, both at once.
  double Seconds(double read_bytes, double written_bytes) const;

  friend bool operator==(const DiskRates&, const DiskRates&) = default;
};

// The link between the host's memory and that of a separate device. Copies in one direction do not
// slow down copies in the other.
struct LinkRates {
  double to_device_bytes_per_second = 0;
  double to_host_bytes_per_second = 0;

  double SecondsToDevice(double bytes) const;
  double SecondsToHost(double bytes) const;

  friend bool operator==(const LinkRates&, const LinkRates&) = default;
};

// The times of a step of several ranks. Its schedule's operations are collectives, exchanges
// between the ranks, which run one after the other on a thread of their own; beside them the
// computations of whole units run. Each waits for the other where it needs the other's results.
struct CollectiveClock {
  struct Computation {
    double seconds = 0;    // alone on the machine
    int needs_ops = 0;     // how many operations of the step's schedule must have ended before it
    bool forward = false;  // it comes before the loss
  };
  std::vector<Computation> computations;  // of a step, in order
  std::vector<double> seconds;            // [op of the schedule] the time of its exchange
  std::vector<int> after;  // [op of the schedule] how many computations must have ended before it
};

struct StepClock {
  // Rates of transfers, needed only if the plan reads or writes. Their processor seconds are taken
  // from compute; 0 where compute leaves a core to the mover.
  DiskRates disk;
  LinkRates link;                      // needed only if the plan copies to or from a device
  double update_bytes_per_second = 0;  // of all workers together
  // The rates at which all workers together check bytes that were read, and copy bytes of units
  // that are read in place (`in_place` [unit], or empty) from the model's blocks to their place. 0:
  // no time.
  double check_bytes_per_second = 0;
  double place_bytes_per_second = 0;
  std::vector<bool> in_place;
  // The rate at which a separate device touches its memory in rounding and updates; needed only
  // there.
  double device_update_bytes_per_second = 0;
  // The share of the workers' time that is taken from compute: 0 if all workers have cores of their
  // own, workers / cores if compute uses every core.
  double shared_cores = 0;
  // The number of workers. Compute waits for the slowest of its threads: a single busy worker, as
  // where updates wait for the disk, delays compute as long as all of them would.
  double workers = 1;
  // [op of the schedule] The seconds of its computation, alone on the machine; empty with several
  // ranks, which have `collective` instead.
  std::vector<double> op_seconds;
  std::optional<CollectiveClock> collective = std::nullopt;
  // The share of its own unit that the first operation reads (FirstRead); with one rank.
  double first_read_share = 1;
};

}  // namespace spillway
