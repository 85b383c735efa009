// What a trainer asks the other ranks between operations.
#include "engine/trainer.h"
#include "io/status.h"

namespace spillway {

absl::Status Trainer::ShareLabels() {
  if (ranks_.world == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int64_t> counts,
                   AllGatherCount(*ranks_.world, compute_->label_count()));
  int64_t total = 0;
  for (int64_t count : counts) total += count;
  compute_->SetLabelCount(total);
  return absl::OkStatus();
}

absl::StatusOr<double> Trainer::LossOfAllRanks() {
  if (ranks_.world == nullptr) return compute_->loss_sum();
  ASSIGN_OR_RETURN(const std::vector<double> sums,
                   AllGatherNumber(*ranks_.world, compute_->loss_sum()));
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

absl::StatusOr<bool> Trainer::AnyRankStops(bool own) {
  if (ranks_.world == nullptr) return own;
  ASSIGN_OR_RETURN(const std::vector<int64_t> stops, AllGatherCount(*ranks_.world, own));
  for (int64_t stop : stops) own |= stop != 0;
  return own;
}

}  // namespace spillway
