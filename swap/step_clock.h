// How long the parts of a step take on one machine: what a plan is timed with.
#pragma once

#include <vector>

namespace spillway {

struct DiskRates {
  double read_bytes_per_second = 0;
  double write_bytes_per_second = 0;
  double mixed_bytes_per_second = 0;  // both together, half of each

  // Of `read_bytes` and `written_bytes`, both at once.
  double Seconds(double read_bytes, double written_bytes) const;

  friend bool operator==(const DiskRates&, const DiskRates&) = default;
};

struct StepClock {
  DiskRates disk;                      // need not be set where nothing is read or written
  double update_bytes_per_second = 0;  // of all workers together
  // Of the time that workers take, how much is taken from compute: 0 with cores of their own
  // for all of them, workers / cores where compute uses every core.
  double shared_cores = 0;
  std::vector<double> op_seconds;  // [op of the schedule] of compute, alone on the machine
};

}  // namespace spillway
