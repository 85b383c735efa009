// How long the parts of a step take on one machine: what a plan is timed with.
#pragma once

#include <vector>

namespace spillway {

// 0 for no bytes. REQUIRES: a positive rate for any.
double SecondsAt(double bytes_per_second, double bytes);

struct DiskRates {
  double read_bytes_per_second = 0;
  double write_bytes_per_second = 0;
  double mixed_bytes_per_second = 0;  // both together, half of each

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

struct StepClock {
  DiskRates disk;                      // need not be set where nothing is read or written
  LinkRates link;                      // likewise, where nothing is copied
  double update_bytes_per_second = 0;  // of all workers together
  // Of the memory of a separate device, where that rounds and updates; need not be set elsewhere.
  double device_update_bytes_per_second = 0;
  // Of the time that workers take, how much is taken from compute: 0 with cores of their own
  // for all of them, workers / cores where compute uses every core.
  double shared_cores = 0;
  std::vector<double> op_seconds;  // [op of the schedule] of compute, alone on the machine
};

}  // namespace spillway
