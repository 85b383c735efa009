// What the trainer notes of a step beside its arithmetic: waits between operations, spans, and
// the bytes written to the drives.
#include "engine/trainer_watch.h"

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
