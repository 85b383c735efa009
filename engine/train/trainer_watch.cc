// What the trainer notes of a step beside its arithmetic: what its row of the metrics is
// made of, waits between operations, spans, and the bytes written to the drives.
#include "engine/train/trainer_watch.h"

#include <algorithm>
#include <utility>

#include "engine/estimate/run_forecast.h"
#include "engine/machine/memory_limits.h"
#include "engine/report/metrics.h"
#include "io/base/status.h"
#include "swap/mover/waited_for.h"

namespace spillway {

void LeaveOut(const SwapStats& begin, const SwapStats& end, SwapStats& start) {
  start.io.read_bytes += end.io.read_bytes - begin.io.read_bytes;
  start.io.written_bytes += end.io.written_bytes - begin.io.written_bytes;
  start.io.busy_seconds += end.io.busy_seconds - begin.io.busy_seconds;
  start.to_device_bytes += end.to_device_bytes - begin.to_device_bytes;
  start.to_host_bytes += end.to_host_bytes - begin.to_host_bytes;
  const auto leave_out = [](const CopyTime& from, const CopyTime& to, CopyTime& time) {
    time.bytes += to.bytes - from.bytes;
    time.seconds += to.seconds - from.seconds;
  };
  leave_out(begin.copies_to_device, end.copies_to_device, start.copies_to_device);
  leave_out(begin.copies_to_host, end.copies_to_host, start.copies_to_host);
  start.copy_busy_seconds += end.copy_busy_seconds - begin.copy_busy_seconds;
  start.compute_busy_seconds += end.compute_busy_seconds - begin.compute_busy_seconds;
  start.stall_copy_seconds += end.stall_copy_seconds - begin.stall_copy_seconds;
  start.device_update_seconds += end.device_update_seconds - begin.device_update_seconds;
  start.update_busy_seconds += end.update_busy_seconds - begin.update_busy_seconds;
  start.stall_disk_seconds += end.stall_disk_seconds - begin.stall_disk_seconds;
  start.stall_update_seconds += end.stall_update_seconds - begin.stall_update_seconds;
  start.stall_commit_seconds += end.stall_commit_seconds - begin.stall_commit_seconds;
}

void LeaveOut(const ShardedStats& begin, const ShardedStats& end, ShardedStats& start) {
  start.busy_seconds += end.busy_seconds - begin.busy_seconds;
  start.stall_collective_seconds += end.stall_collective_seconds - begin.stall_collective_seconds;
  start.stall_swap_seconds += end.stall_swap_seconds - begin.stall_swap_seconds;
  start.sent_bytes += end.sent_bytes - begin.sent_bytes;
  start.compute_busy_seconds += end.compute_busy_seconds - begin.compute_busy_seconds;
}

Trainer::WaitOutsideOps::WaitOutsideOps(Trainer& trainer)
    : trainer_(trainer),
      before_(trainer.manager_->stats()),
      exchanged_before_(trainer.ExchangedNow()) {
  span_.begin_ns = Trace::Now();
}

void Trainer::WaitOutsideOps::End() {
  span_.end_ns = Trace::Now();
  const SwapStats now = trainer_.manager_->stats();
  const double whole = static_cast<double>(span_.end_ns - span_.begin_ns) * 1e-9;
  const double computing = now.compute_busy_seconds - before_.compute_busy_seconds;
  const double waited = std::max(0.0, whole - computing);
  span_.begin_ns = span_.end_ns - static_cast<int64_t>(waited * 1e9);
  BusyMeanwhile busy;
  busy.disk = now.io.busy_seconds - before_.io.busy_seconds;
  busy.workers = (now.update_busy_seconds - before_.update_busy_seconds) / trainer_.workers_;
  busy.device_update = now.device_update_seconds - before_.device_update_seconds;
  busy.copy = now.copy_busy_seconds - before_.copy_busy_seconds;
  const double exchanging = trainer_.ExchangedNow().busy_seconds - exchanged_before_.busy_seconds;
  span_.kind = exchanging > waited / 2 ? SpanKind::kWaitCollective : WaitedFor(waited, busy);
  (span_.kind == SpanKind::kWaitCollective ? trainer_.waited_collective_seconds_
   : span_.kind == SpanKind::kWaitUpdate   ? trainer_.waited_update_seconds_
   : span_.kind == SpanKind::kWaitCopy     ? trainer_.waited_copy_seconds_
                                           : trainer_.waited_disk_seconds_) += waited;
  trainer_.recorder_->trace()->Record(span_);
}

void Trainer::StartClock(double now, const SwapStats& stats, const ShardedStats& exchanged) {
  row_began_ = now;
  last_stats_ = stats;
  compute_seconds_ = excluded_seconds_ = 0;
  last_exchanged_ = exchanged;
  waited_disk_seconds_ = waited_update_seconds_ = waited_copy_seconds_ = 0;
  waited_collective_seconds_ = agreed_seconds_ = 0;
  busy_after_forward_ = busy_after_backward_ = {};
}

double Trainer::ComputingNow(const SwapStats& stats) const {
  if (device_ == nullptr) return compute_seconds_;
  if (sharded_ != nullptr) {
    return ExchangedNow().compute_busy_seconds - last_exchanged_.compute_busy_seconds;
  }
  return stats.compute_busy_seconds - last_stats_.compute_busy_seconds;
}

Trainer::Busy Trainer::BusyNow(const SwapStats& stats) const {
  Busy now;
  ResourceSeconds& busy = now.seconds;
  busy[static_cast<int>(Resource::kDisk)] = stats.io.busy_seconds - last_stats_.io.busy_seconds;
  busy[static_cast<int>(Resource::kCompute)] = ComputingNow(stats);
  busy[static_cast<int>(Resource::kCopy)] = stats.copy_busy_seconds - last_stats_.copy_busy_seconds;
  busy[static_cast<int>(Resource::kCollective)] =
      ExchangedNow().busy_seconds - last_exchanged_.busy_seconds;
  busy[static_cast<int>(Resource::kUpdate)] =
      (stats.update_busy_seconds - last_stats_.update_busy_seconds) / workers_;
  now.device_update = stats.device_update_seconds - last_stats_.device_update_seconds;
  return now;
}

void Trainer::EndRow(StepMetrics& row) {
  const double now = static_cast<double>(Trace::Now()) * 1e-9;
  const SwapStats stats = manager_->stats();
  const ShardedStats exchanged = ExchangedNow();
  const double held = stats.stall_commit_seconds - last_stats_.stall_commit_seconds;
  row.seconds = now - row_began_ - excluded_seconds_ - held;
  row.commit_seconds = std::exchange(last_commit_seconds_, 0) + held;
  row.nvme_read_bytes = stats.io.read_bytes - last_stats_.io.read_bytes;
  row.to_device_bytes = stats.to_device_bytes - last_stats_.to_device_bytes;
  row.to_host_bytes = stats.to_host_bytes - last_stats_.to_host_bytes;
  row.nvme_written_bytes = stats.io.written_bytes - last_stats_.io.written_bytes;
  row.busy_disk_seconds = stats.io.busy_seconds - last_stats_.io.busy_seconds;
  row.busy_update_seconds = stats.update_busy_seconds - last_stats_.update_busy_seconds;
  row.busy_device_update_seconds = stats.device_update_seconds - last_stats_.device_update_seconds;
  row.busy_compute_seconds = ComputingNow(stats);
  row.busy_copy_seconds = stats.copy_busy_seconds - last_stats_.copy_busy_seconds;
  const auto since = [](const CopyTime& before, const CopyTime& now) {
    return CopyTime{now.bytes - before.bytes, now.seconds - before.seconds};
  };
  row.copies_to_device = since(last_stats_.copies_to_device, stats.copies_to_device);
  row.copies_to_host = since(last_stats_.copies_to_host, stats.copies_to_host);
  row.stall_copy_seconds =
      stats.stall_copy_seconds - last_stats_.stall_copy_seconds + waited_copy_seconds_;
  row.stall_disk_seconds =
      stats.stall_disk_seconds - last_stats_.stall_disk_seconds + waited_disk_seconds_;
  row.stall_update_seconds =
      stats.stall_update_seconds - last_stats_.stall_update_seconds + waited_update_seconds_;
  if (sharded_ != nullptr) EndRowOfRanks(row, exchanged);
  row.forecast = forecast_;
  if (forecast_) {
    const Busy ends[] = {{}, busy_after_forward_, busy_after_backward_, BusyNow(stats)};
    std::array<ResourceSeconds, kPhases> busy;
    for (int phase = 0; phase < kPhases; ++phase) {
      const Busy &begin = ends[phase], &end = ends[phase + 1];
      for (size_t i = 0; i < busy[phase].size(); ++i) {
        busy[phase][i] = end.seconds[i] - begin.seconds[i];
      }
      // The workers and a separate device update side by side: who has more to do binds.
      double& updating = busy[phase][static_cast<int>(Resource::kUpdate)];
      updating = std::max(updating, end.device_update - begin.device_update);
    }
    row.binding_seconds = BindingSeconds(*forecast_, busy);
  }
  row.peak_device_bytes = compute_->peak_bytes();
  if (device_ != nullptr) {
    row.peak_device_bytes += device_arena_->size_bytes();
    if (whole_arena_ != nullptr) row.peak_device_bytes += whole_arena_->size_bytes();
  }
  row.peak_host_bytes = host_budget_->peak_bytes();
  row.peak_rss_bytes = PeakResidentBytes();
  StartClock(now, stats, exchanged);
}

void Trainer::JudgeForecast(StepSummary& summary, TrainResult& result) {
  result.forecast = forecast_;
  result.median_seconds = summary.median_seconds();
  if (!clock_ || result.median_seconds <= 0) return;
  const double seconds =
      ForecastRun(plan(), AtObservedRates(*clock_, summary.observed_rates())).predicted_seconds;
  result.predicted_at_observed_rates_seconds = seconds;
  summary.SetPredictedAtObservedRates(seconds);
  journal_->SetPredictedAtObservedRates(seconds);
}

void Trainer::EndStepOfTrace(const StepMetrics& row, bool steady) {
  StepTimes times;
  times.step = row.step;
  times.steady = steady;
  times.phase_ends_ns = phase_ends_ns_;
  times.end_ns = Trace::Now();
  recorder_->EndStep(times, ToJson(row));
}

// Before anything is written: whether a step fits --max-bytes-written.
absl::Status Trainer::CheckWrites(const SwapPlan& plan) {
  write_plan_ = PlanWrites(plan, !storage_->committed(), !options_.no_commit);
  if (options_.resume) {
    ASSIGN_OR_RETURN(written_before_, WrittenBytes::Read(storage_->output()));
  }
  return CheckWriteLimit(options_.max_bytes_written, written_before_, write_plan_);
}

absl::Status Trainer::CountWritten(uint64_t expected_bytes) {
  RETURN_IF_ERROR(written_->Set(manager_->stats().io.written_bytes, expected_bytes));
  if (journal_) journal_->SetWritten(written_->total());
  return absl::OkStatus();
}

}  // namespace spillway
