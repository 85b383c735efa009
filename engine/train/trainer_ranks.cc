// What a trainer asks the other ranks between operations, and what of a step they took.
#include "engine/train/trainer.h"
#include "io/base/clock.h"
#include "io/base/status.h"
#include "io/base/trace.h"

namespace spillway {

void Trainer::CountAgreement(double began) {
  agreed_seconds_ += MonotonicSeconds() - began;
  Span span;
  span.kind = SpanKind::kWaitCollective;
  span.begin_ns = static_cast<int64_t>(began * 1e9);
  span.end_ns = Trace::Now();
  recorder_->trace()->Record(span);
}

absl::StatusOr<std::vector<int64_t>> Trainer::CountsOfAllRanks(int64_t own) {
  const double began = MonotonicSeconds();
  sharded_->BeginExchange();
  auto counts = AllGatherCount(*ranks_.world, own);
  sharded_->EndExchange();
  CountAgreement(began);
  return counts;
}

absl::Status Trainer::ShareLabels() {
  if (ranks_.world == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int64_t> counts, CountsOfAllRanks(compute_->label_count()));
  int64_t total = 0;
  for (int64_t count : counts) total += count;
  compute_->SetLabelCount(total);
  return absl::OkStatus();
}

absl::StatusOr<double> Trainer::LossOfAllRanks() {
  if (ranks_.world == nullptr) return compute_->loss_sum();
  const double began = MonotonicSeconds();
  sharded_->BeginExchange();
  ASSIGN_OR_RETURN(const std::vector<double> sums,
                   AllGatherNumber(*ranks_.world, compute_->loss_sum()));
  sharded_->EndExchange();
  CountAgreement(began);
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

absl::StatusOr<bool> Trainer::AnyRankStops(bool own) {
  if (ranks_.world == nullptr) return own;
  ASSIGN_OR_RETURN(const std::vector<int64_t> stops, CountsOfAllRanks(own));
  for (int64_t stop : stops) own |= stop != 0;
  return own;
}

void Trainer::EndRowOfRanks(StepMetrics& row, const ShardedStats& now) const {
  const ShardedStats& last = last_exchanged_;
  row.collective_bytes = now.sent_bytes - last.sent_bytes;
  row.busy_collective_seconds = now.busy_seconds - last.busy_seconds;
  row.stall_collective_seconds = now.stall_collective_seconds - last.stall_collective_seconds +
                                 waited_collective_seconds_ + agreed_seconds_;
  // The swap manager's own stalls are those of the thread that exchanges, and not of compute.
  row.stall_disk_seconds = now.stall_swap_seconds - last.stall_swap_seconds + waited_disk_seconds_;
  row.stall_update_seconds = waited_update_seconds_;
  row.stall_copy_seconds = waited_copy_seconds_;
}

}  // namespace spillway
