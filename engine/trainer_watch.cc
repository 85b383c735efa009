// What the trainer notes of a step beside its arithmetic: what its row of the metrics is
// made of, waits between operations, spans, and the bytes written to the drives.
#include "engine/trainer_watch.h"

#include <utility>

#include "engine/estimate/run_forecast.h"
#include "engine/memory_limits.h"
#include "engine/metrics.h"
#include "io/status.h"

namespace spillway {

Trainer::WaitOutsideOps::WaitOutsideOps(Trainer& trainer)
    : trainer_(trainer), update_seconds_before_(trainer.manager_->stats().update_busy_seconds) {
  span_.begin_ns = Trace::Now();
}

void Trainer::WaitOutsideOps::End() {
  span_.end_ns = Trace::Now();
  const double waited = static_cast<double>(span_.end_ns - span_.begin_ns) * 1e-9;
  const double updating = trainer_.manager_->stats().update_busy_seconds - update_seconds_before_;
  const bool update = updating / trainer_.workers_ > waited / 2;
  (update ? trainer_.waited_update_seconds_ : trainer_.waited_disk_seconds_) += waited;
  span_.kind = update ? SpanKind::kWaitUpdate : SpanKind::kWaitDisk;
  trainer_.recorder_->trace()->Record(span_);
}

void Trainer::StartClock(double now, const SwapStats& stats) {
  row_began_ = now;
  last_stats_ = stats;
  compute_seconds_ = excluded_seconds_ = waited_disk_seconds_ = waited_update_seconds_ = 0;
  busy_after_forward_ = busy_after_backward_ = {};
}

ResourceSeconds Trainer::BusyNow(const SwapStats& stats) const {
  ResourceSeconds busy;
  busy[static_cast<int>(Resource::kDisk)] = stats.io.busy_seconds - last_stats_.io.busy_seconds;
  busy[static_cast<int>(Resource::kCompute)] = compute_seconds_;
  busy[static_cast<int>(Resource::kUpdate)] =
      (stats.update_busy_seconds - last_stats_.update_busy_seconds) / workers_;
  return busy;
}

void Trainer::EndRow(StepMetrics& row) {
  const double now = static_cast<double>(Trace::Now()) * 1e-9;
  const SwapStats stats = manager_->stats();
  const double held = stats.stall_commit_seconds - last_stats_.stall_commit_seconds;
  row.seconds = now - row_began_ - excluded_seconds_ - held;
  row.commit_seconds = std::exchange(last_commit_seconds_, 0) + held;
  row.nvme_read_bytes = stats.io.read_bytes - last_stats_.io.read_bytes;
  row.to_device_bytes = stats.to_device_bytes - last_stats_.to_device_bytes;
  row.to_host_bytes = stats.to_host_bytes - last_stats_.to_host_bytes;
  row.nvme_written_bytes = stats.io.written_bytes - last_stats_.io.written_bytes;
  row.busy_disk_seconds = stats.io.busy_seconds - last_stats_.io.busy_seconds;
  row.busy_update_seconds = stats.update_busy_seconds - last_stats_.update_busy_seconds;
  row.busy_compute_seconds = compute_seconds_;
  row.stall_disk_seconds =
      stats.stall_disk_seconds - last_stats_.stall_disk_seconds + waited_disk_seconds_;
  row.stall_update_seconds =
      stats.stall_update_seconds - last_stats_.stall_update_seconds + waited_update_seconds_;
  row.forecast = forecast_;
  if (forecast_) {
    std::array<ResourceSeconds, kPhases> busy = {busy_after_forward_, busy_after_backward_,
                                                 BusyNow(stats)};
    for (int phase = kPhases - 1; phase > 0; --phase) {
      for (size_t i = 0; i < busy[phase].size(); ++i) busy[phase][i] -= busy[phase - 1][i];
    }
    row.binding_seconds = BindingSeconds(*forecast_, busy);
  }
  row.peak_device_bytes = compute_->peak_bytes() + (device_ ? device_arena_->size_bytes() : 0);
  row.peak_host_bytes = host_budget_->peak_bytes();
  row.peak_rss_bytes = PeakResidentBytes();
  StartClock(now, stats);
}

void Trainer::JudgeForecast(StepSummary& summary, TrainResult& result) {
  result.forecast = forecast_;
  result.median_seconds = summary.median_seconds();
  if (!clock_ || result.median_seconds <= 0) return;
  const double seconds =
      ForecastRun(plan(), AtObservedRates(*clock_, summary.observed_disk())).predicted_seconds;
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
