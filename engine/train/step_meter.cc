#include "engine/train/step_meter.h"

#include <algorithm>
#include <utility>

#include "engine/machine/memory_limits.h"
#include "io/base/clock.h"
#include "io/base/trace.h"
#include "swap/mover/waited_for.h"

namespace spillway {
namespace {

// `end`, with some members reduced by those of `begin`.
template <typename Counts, typename... Members>
Counts Less(const Counts& begin, Counts end, Members... members) {
  ((end.*members -= begin.*members), ...);
  return end;
}

CopyTime Since(const CopyTime& begin, const CopyTime& end) {
  return Less(begin, end, &CopyTime::bytes, &CopyTime::seconds);
}

// The counters that a row shows, from `begin` to `end`.
SwapStats Since(const SwapStats& begin, const SwapStats& end) {
  SwapStats since = Less(begin, end, &SwapStats::to_device_bytes, &SwapStats::to_host_bytes,
                         &SwapStats::copy_busy_seconds, &SwapStats::compute_busy_seconds,
                         &SwapStats::device_update_seconds, &SwapStats::update_busy_seconds,
                         &SwapStats::stall_copy_seconds, &SwapStats::stall_disk_seconds,
                         &SwapStats::stall_update_seconds, &SwapStats::stall_commit_seconds);
  since.io =
      Less(begin.io, end.io, &IoStats::read_bytes, &IoStats::written_bytes, &IoStats::busy_seconds);
  since.copies_to_device = Since(begin.copies_to_device, end.copies_to_device);
  since.copies_to_host = Since(begin.copies_to_host, end.copies_to_host);
  return since;
}

ShardedStats Since(const ShardedStats& begin, const ShardedStats& end) {
  return Less(begin, end, &ShardedStats::busy_seconds, &ShardedStats::stall_collective_seconds,
              &ShardedStats::stall_swap_seconds, &ShardedStats::sent_bytes,
              &ShardedStats::compute_busy_seconds);
}

double NowSeconds() { return static_cast<double>(Trace::Now()) * 1e-9; }

}  // namespace

StepMeter::Wait::Wait(StepMeter& meter)
    : meter_(meter),
      before_(meter.setup_.manager()->stats()),
      exchanged_before_(meter.setup_.exchanged()) {
  span_.begin_ns = Trace::Now();
}

void StepMeter::Wait::End() {
  span_.end_ns = Trace::Now();
  const SwapStats meanwhile = Since(before_, meter_.setup_.manager()->stats());
  const double whole = static_cast<double>(span_.end_ns - span_.begin_ns) * 1e-9;
  const double waited = std::max(0.0, whole - meanwhile.compute_busy_seconds);
  span_.begin_ns = span_.end_ns - static_cast<int64_t>(waited * 1e9);
  BusyMeanwhile busy;
  busy.disk = meanwhile.io.busy_seconds;
  busy.workers = meanwhile.update_busy_seconds / meter_.setup_.workers();
  busy.device_update = meanwhile.device_update_seconds;
  busy.copy = meanwhile.copy_busy_seconds;
  const double exchanging = Since(exchanged_before_, meter_.setup_.exchanged()).busy_seconds;
  span_.kind = exchanging > waited / 2 ? SpanKind::kWaitCollective : WaitedFor(waited, busy);
  (span_.kind == SpanKind::kWaitCollective ? meter_.waited_.collective
   : span_.kind == SpanKind::kWaitUpdate   ? meter_.waited_.update
   : span_.kind == SpanKind::kWaitCopy     ? meter_.waited_.copy
                                           : meter_.waited_.disk) += waited;
  meter_.recorder_.trace()->Record(span_);
}

StepMeter::Pause::Pause(StepMeter& meter)
    : meter_(meter),
      began_(MonotonicSeconds()),
      stats_(meter.setup_.manager()->stats()),
      exchanged_(meter.setup_.exchanged()),
      compute_seconds_(meter.compute_seconds_),
      agreed_seconds_(meter.agreed_seconds_) {}

void StepMeter::Pause::End() {
  meter_.excluded_seconds_ += MonotonicSeconds() - began_;
  // The row continues as if the pause had not happened.
  meter_.stats_ = Since(Since(meter_.stats_, stats_), meter_.setup_.manager()->stats());
  meter_.exchanged_ = Since(Since(meter_.exchanged_, exchanged_), meter_.setup_.exchanged());
  meter_.compute_seconds_ = compute_seconds_;
  meter_.agreed_seconds_ = agreed_seconds_;
}

void StepMeter::Begin() {
  BeginRow(MonotonicSeconds(), setup_.manager()->stats(), setup_.exchanged());
}

void StepMeter::BeginRow(double now, const SwapStats& stats, const ShardedStats& exchanged) {
  row_began_ = now;
  stats_ = stats;
  exchanged_ = exchanged;
  compute_seconds_ = excluded_seconds_ = agreed_seconds_ = 0;
  waited_ = {};
  busy_ = {};
}

void StepMeter::EndPhase(Phase phase) {
  const size_t i = static_cast<size_t>(phase);
  busy_[i] =
      BusySince(Since(stats_, setup_.manager()->stats()), Since(exchanged_, setup_.exchanged()));
  phase_ends_ns_[i] = Trace::Now();
}

void StepMeter::CountAgreement(double began) {
  agreed_seconds_ += MonotonicSeconds() - began;
  Span span;
  span.kind = SpanKind::kWaitCollective;
  span.begin_ns = static_cast<int64_t>(began * 1e9);
  span.end_ns = Trace::Now();
  recorder_.trace()->Record(span);
}

void StepMeter::CountCommit(double began) {
  const double seconds = MonotonicSeconds() - began;
  commit_seconds_ += seconds;
  excluded_seconds_ += seconds;
}

StepMeter::Busy StepMeter::BusySince(const SwapStats& swapped,
                                     const ShardedStats& exchanged) const {
  Busy busy;
  const auto at = [&](Resource resource) -> double& {
    return busy.seconds[static_cast<size_t>(resource)];
  };
  at(Resource::kDisk) = swapped.io.busy_seconds;
  // A separate device reports the times of its own stream.
  at(Resource::kCompute) = context_.device == nullptr    ? compute_seconds_
                           : setup_.sharded() != nullptr ? exchanged.compute_busy_seconds
                                                         : swapped.compute_busy_seconds;
  at(Resource::kCopy) = swapped.copy_busy_seconds;
  at(Resource::kCollective) = exchanged.busy_seconds;
  at(Resource::kUpdate) = swapped.update_busy_seconds / setup_.workers();
  busy.device_update = swapped.device_update_seconds;
  return busy;
}

double StepMeter::BindingSecondsOfRow() const {
  std::array<ResourceSeconds, kPhases> busy;
  Busy begin;
  for (int phase = 0; phase < kPhases; ++phase) {
    const Busy& end = busy_[phase];
    for (size_t i = 0; i < busy[phase].size(); ++i) {
      busy[phase][i] = end.seconds[i] - begin.seconds[i];
    }
    // The workers and a separate device update in parallel: the slower one binds.
    double& updating = busy[phase][static_cast<size_t>(Resource::kUpdate)];
    updating = std::max(updating, end.device_update - begin.device_update);
    begin = end;
  }
  return BindingSeconds(*setup_.forecast(), busy);
}

void StepMeter::EndRow(StepMetrics& row) {
  const double now = NowSeconds();
  const SwapStats stats = setup_.manager()->stats();
  const ShardedStats exchanged = setup_.exchanged();
  const SwapStats swapped = Since(stats_, stats);
  const ShardedStats shared = Since(exchanged_, exchanged);
  const Busy busy = BusySince(swapped, shared);
  busy_[static_cast<size_t>(Phase::kFlush)] = busy;

  row.seconds = now - row_began_ - excluded_seconds_ - swapped.stall_commit_seconds;
  row.commit_seconds = std::exchange(commit_seconds_, 0) + swapped.stall_commit_seconds;
  row.nvme_read_bytes = swapped.io.read_bytes;
  row.nvme_written_bytes = swapped.io.written_bytes;
  row.to_device_bytes = swapped.to_device_bytes;
  row.to_host_bytes = swapped.to_host_bytes;
  row.busy_disk_seconds = swapped.io.busy_seconds;
  row.busy_update_seconds = swapped.update_busy_seconds;
  row.busy_device_update_seconds = swapped.device_update_seconds;
  row.busy_compute_seconds = busy.seconds[static_cast<size_t>(Resource::kCompute)];
  row.busy_copy_seconds = swapped.copy_busy_seconds;
  row.copies_to_device = swapped.copies_to_device;
  row.copies_to_host = swapped.copies_to_host;
  row.stall_disk_seconds = waited_.disk;
  row.stall_update_seconds = waited_.update;
  row.stall_copy_seconds = waited_.copy;
  if (setup_.sharded() == nullptr) {
    row.stall_disk_seconds += swapped.stall_disk_seconds;
    row.stall_update_seconds += swapped.stall_update_seconds;
    row.stall_copy_seconds += swapped.stall_copy_seconds;
  } else {
    // The swap manager's own stalls are those of the thread that exchanges, and not of compute.
    row.stall_disk_seconds += shared.stall_swap_seconds;
    row.collective_bytes = shared.sent_bytes;
    row.busy_collective_seconds = shared.busy_seconds;
    row.stall_collective_seconds =
        shared.stall_collective_seconds + waited_.collective + agreed_seconds_;
  }
  row.forecast = setup_.forecast();
  if (row.forecast) row.binding_seconds = BindingSecondsOfRow();
  row.peak_device_bytes = context_.compute->peak_bytes() + setup_.device_arena_bytes();
  row.peak_host_bytes = setup_.peak_host_bytes();
  row.peak_rss_bytes = PeakResidentBytes();
  BeginRow(now, stats, exchanged);
}

void StepMeter::EndStepOfTrace(const StepMetrics& row, bool steady) {
  StepTimes times;
  times.step = row.step;
  times.steady = steady;
  times.phase_ends_ns = phase_ends_ns_;
  times.end_ns = Trace::Now();
  recorder_.EndStep(times, ToJson(row));
}

}  // namespace spillway
