#include "swap/forecast/virtual_machine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "io/base/check.h"

namespace spillway {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

VirtualMachine::VirtualMachine(const StepClock& clock)
    : clock_(clock),
      lines_(kFirstWorker + std::max(1, static_cast<int>(std::lround(clock.workers)))),
      rates_(lines_.size()) {}

void VirtualMachine::Begin(int line, double seconds, Done done) {
  SPILLWAY_CHECK(!busy(line));
  lines_[line] = {seconds, seconds, std::move(done)};
}

bool VirtualMachine::AnyWorkerBusy() const {
  return std::any_of(lines_.begin() + kFirstWorker, lines_.end(),
                     [](const Job& job) { return job.whole >= 0; });
}

// Together no more than the disk does of both, and what one leaves is the other's.
double VirtualMachine::ReadRate() const {
  const DiskRates& disk = clock_.disk;
  const double most = std::min(disk.read_bytes_per_second, disk.mixed_bytes_per_second);
  return busy(kWrite) ? std::min(most, disk.mixed_bytes_per_second - WriteRate()) : most;
}

double VirtualMachine::WriteRate() const {
  const DiskRates& disk = clock_.disk;
  const double both = disk.mixed_bytes_per_second;
  const double read = busy(kRead) ? std::min(disk.read_bytes_per_second, reads_ * both) : 0;
  return std::min(disk.write_bytes_per_second, both - read);
}

double VirtualMachine::DiskShare() const {
  const double bytes = (busy(kRead) ? ReadRate() : 0) + (busy(kWrite) ? WriteRate() : 0);
  return bytes * clock_.disk.processor_seconds_per_byte;
}

double VirtualMachine::RateOf(int line) const {
  switch (line) {
    case kCompute:
      // It waits for the slowest of its threads: one busy worker keeps it up as all of them would,
      // and likewise who asks the disk. Never quite nothing: then both would share the cores.
      return std::max(0.05, 1 - (AnyWorkerBusy() ? clock_.shared_cores : 0) - DiskShare());
    case kRead:
      return ReadRate();
    case kWrite:
      return WriteRate();
    case kToDevice:
      return busy(kInputToDevice) ? 0 : 1;
    case kToHost:
      return busy(kInputToHost) ? 0 : 1;
    default:
      return 1;
  }
}

bool VirtualMachine::Advance() {
  double passed = kNever;
  for (size_t line = 0; line < lines_.size(); ++line) {
    const Job& job = lines_[line];
    if (job.whole < 0) continue;
    rates_[line] = RateOf(static_cast<int>(line));
    if (rates_[line] > 0) passed = std::min(passed, job.left / rates_[line]);
  }
  if (passed == kNever) return false;
  seconds_.now += passed;
  if (busy(kRead) || busy(kWrite)) seconds_.disk += passed;
  if (busy(kExchange)) seconds_.exchange += passed;
  const bool inputs = busy(kInputToDevice) || busy(kInputToHost);
  if (inputs || busy(kToDevice) || busy(kToHost) || busy(kDeviceUpdate)) seconds_.link += passed;
  if (!inputs && !busy(kCompute)) seconds_.stalled += passed;
  for (size_t line = 0; line < lines_.size(); ++line) {
    Job& job = lines_[line];
    if (job.whole < 0) continue;
    job.left -= passed * rates_[line];
    if (job.left > 1e-12 * job.whole) continue;
    job.whole = -1;
    ended_.push_back(std::move(job.done));
  }
  for (const Done& done : ended_) done();
  ended_.clear();
  return true;
}

}  // namespace spillway
