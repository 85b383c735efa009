#include "swap/forecast/virtual_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace spillway {
namespace {

StepClock MachineClock() {
  StepClock clock;
  clock.disk = {4, 2, 5};
  clock.shared_cores = 0.5;
  clock.workers = 2;
  return clock;
}

// When each of `lines`, begun together, ends.
std::vector<double> Ends(const StepClock& clock, double reads,
                         const std::vector<std::pair<int, double>>& lines) {
  VirtualMachine machine(clock);
  machine.ShareDisk(reads);
  std::vector<double> ends(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    machine.Begin(lines[i].first, lines[i].second, [&, i] { ends[i] = machine.seconds().now; });
  }
  while (machine.Advance()) {
  }
  return ends;
}

using testing::DoubleNear;
using testing::ElementsAre;

TEST(VirtualMachine, ReadsAndWritesShareTheDisk) {
  const StepClock clock = MachineClock();
  EXPECT_THAT(Ends(clock, 0.5, {{VirtualMachine::kRead, 8}}), ElementsAre(2));
  EXPECT_THAT(Ends(clock, 0.5, {{VirtualMachine::kWrite, 8}}), ElementsAre(4));
  // Half of 5 each would be 2.5: writes take 2 of that, and reads the rest.
  EXPECT_THAT(Ends(clock, 0.5, {{VirtualMachine::kRead, 6}, {VirtualMachine::kWrite, 6}}),
              ElementsAre(DoubleNear(2, 1e-9), DoubleNear(3, 1e-9)));
  // Four fifths of it are reads.
  EXPECT_THAT(Ends(clock, 0.8, {{VirtualMachine::kRead, 8}, {VirtualMachine::kWrite, 4}}),
              ElementsAre(DoubleNear(2, 1e-9), DoubleNear(3, 1e-9)));
}

TEST(VirtualMachine, OneBusyWorkerTakesAsMuchOfComputeAsAll) {
  const StepClock clock = MachineClock();
  const int worker = VirtualMachine::kFirstWorker;
  EXPECT_THAT(Ends(clock, 0, {{VirtualMachine::kCompute, 3}, {worker, 4}}), ElementsAre(5, 4));
  EXPECT_THAT(Ends(clock, 0, {{VirtualMachine::kCompute, 3}, {worker, 4}, {worker + 1, 4}}),
              ElementsAre(5, 4, 4));
}

TEST(VirtualMachine, WhatTheDiskMovesTakesFromComputeToo) {
  StepClock clock = MachineClock();
  clock.disk.processor_seconds_per_byte = 0.125;
  // 4 bytes a second: half of compute, for 2 seconds.
  EXPECT_THAT(Ends(clock, 0, {{VirtualMachine::kCompute, 3}, {VirtualMachine::kRead, 8}}),
              ElementsAre(4, 2));
  // Reads 3 and writes 2: five eighths, for 2 seconds.
  EXPECT_THAT(
      Ends(
          clock, 0.5,
          {{VirtualMachine::kCompute, 3}, {VirtualMachine::kRead, 6}, {VirtualMachine::kWrite, 4}}),
      ElementsAre(DoubleNear(4.25, 1e-9), DoubleNear(2, 1e-9), DoubleNear(2, 1e-9)));
}

TEST(VirtualMachine, AnOperationsInputGoesBeforeOtherCopies) {
  EXPECT_THAT(Ends(MachineClock(), 0,
                   {{VirtualMachine::kToDevice, 2},
                    {VirtualMachine::kInputToDevice, 3},
                    {VirtualMachine::kToHost, 2}}),
              ElementsAre(5, 3, 2));
}

}  // namespace
}  // namespace spillway
